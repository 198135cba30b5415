// Keep up with width, theme and print; say when all is drawn.

const redrawAll = () => charts.forEach((c) => { c.instance.resize(); c.redraw(); });

const widths = new Map(charts.map((c) => [c.element, c.element.clientWidth]));
const observer = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (widths.get(target) === target.clientWidth) continue;
    widths.set(target, target.clientWidth);
    const changed = charts.find((c) => c.element === target);
    changed.instance.resize();
    changed.redraw();
  }
});
charts.forEach((c) => observer.observe(c.element));

window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);

// Paper is white and one column wide.
const PAPER_WIDTH = 690;
window.addEventListener('beforeprint', () => {
  document.documentElement.classList.add('printing');
  document.querySelector('#set-up details').open = true;
  charts.forEach((c) => { c.instance.resize({ width: PAPER_WIDTH }); c.redraw(); });
});
window.addEventListener('afterprint', () => {
  document.documentElement.classList.remove('printing');
  charts.forEach((c) => c.instance.resize({ width: 'auto' }));
  redrawAll();
});

document.documentElement.dataset.charts = charts.length;
const wait = () => {
  if (charts.every((c) => c.element.dataset.drawn)) document.documentElement.dataset.state = 'ready';
  else window.setTimeout(wait, 20);
};
wait();
