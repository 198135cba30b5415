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
const PAPER = { width: 690, height: 225 };
window.addEventListener('beforeprint', () => {
  document.documentElement.classList.add('printing');
  document.querySelector('#set-up details').open = true;
  for (const { element, instance, redraw } of charts) {
    const tall = element.style.height || element.id === 'chart-topology';
    instance.resize(tall ? { width: PAPER.width } : PAPER);
    redraw();
    // There is no next frame before the page is on paper.
    instance.getZr().flush();
  }
});
window.addEventListener('afterprint', () => {
  document.documentElement.classList.remove('printing');
  charts.forEach((c) => c.instance.resize({ width: 'auto', height: 'auto' }));
  redrawAll();
});

document.documentElement.dataset.charts = charts.length;
const wait = () => {
  if (charts.every((c) => c.element.dataset.drawn)) document.documentElement.dataset.state = 'ready';
  else window.setTimeout(wait, 20);
};
wait();
