// The data, the colours, and what every chart has in common.

const data = JSON.parse(document.getElementById('report-data').textContent);
const schemes = data.schemes;
const narrow = () => window.innerWidth < 600;

// ---- Numbers and words

/** Three significant digits. Missing values (null) read as a dash. */
function num(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return '–';
  const size = Math.abs(x);
  if (size === 0) return '0';
  if (size < 1e-4 || size >= 1e15) return x.toExponential(2);
  const decimals = size >= 100 ? 0 : Math.min(5, 2 - Math.floor(Math.log10(size)));
  return x.toLocaleString('en', { minimumFractionDigits: 0, maximumFractionDigits: decimals });
}

/** A time, given in ms, in the unit that reads best. */
function time(ms) {
  if (ms === null || !Number.isFinite(ms)) return '–';
  const size = Math.abs(ms);
  if (size === 0) return '0';
  if (size < 1e-3) return `${num(ms * 1e6)} ns`;
  if (size < 1) return `${num(ms * 1e3)} µs`;
  if (size < 1e3) return `${num(ms)} ms`;
  return `${num(ms / 1e3)} s`;
}

const inUnit = (unit) => (unit === 'ms' ? time : (x) => (unit ? `${num(x)} ${unit}` : num(x)));
const percent = (x) => (x === null ? '–' : `${num(x * 100)}%`);

/** Distinct values in order of appearance. */
const union = (lists) => [...new Set(lists.flat())];

function mean(list) {
  const known = list.filter(Number.isFinite);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// ---- Colours, from the style sheet, so that dark mode and print are told in one place

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const schemeColour = (i) => css(`--s${i % 8}`);
const faint = (hex) => `${hex}4d`;
const schemeDash = (i) => ['solid', [7, 3], [2, 3], [9, 3, 2, 3]][i % 4];
const schemeSymbol = (i) => ['circle', 'rect', 'triangle', 'diamond'][i % 4];
const heatColours = () => [0, 1, 2, 3, 4].map((i) => css(`--heat${i}`));

// ---- Parts of chart options

function axis(more = {}) {
  const { name, ...rest } = more;
  return {
    name,
    nameLocation: 'middle',
    nameTextStyle: { color: css('--muted'), fontSize: 12 },
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: { color: css('--muted'), fontSize: 12, hideOverlap: true, ...rest.axisLabel },
    splitLine: { lineStyle: { color: css('--grid') } },
    minorSplitLine: { show: false },
    ...Object.fromEntries(Object.entries(rest).filter(([key]) => key !== 'axisLabel')),
  };
}

function common() {
  return {
    animation: false,
    textStyle: { fontFamily: css('--font'), color: css('--text') },
    aria: { enabled: false },
    grid: { left: 8, right: 18, top: 36, bottom: 26, containLabel: true },
    tooltip: {
      confine: true,
      backgroundColor: css('--card'),
      borderColor: css('--line'),
      textStyle: { color: css('--text'), fontSize: 13 },
    },
  };
}

/** A legend of the schemes, or of others that have names; a click hides one. `plain` for lines without symbols. */
function legend(plain = false, list = schemes) {
  return {
    data: list.map((s) => s.name),
    itemStyle: plain ? { opacity: 0 } : {},
    type: 'scroll',
    left: 0,
    top: 0,
    itemWidth: plain ? 28 : 22,
    itemHeight: 10,
    inactiveColor: css('--line'),
    textStyle: { color: css('--text'), fontSize: 13 },
    pageTextStyle: { color: css('--muted') },
  };
}

/** A tooltip's content, built of nodes so that no name is ever read as HTML. Rows: [colour or null, name, value]. */
function tip(title, rows) {
  const box = document.createElement('div');
  const head = document.createElement('div');
  head.textContent = title;
  head.style.cssText = 'font-weight:600;margin-bottom:2px';
  box.append(head);
  for (const [colour, name, value] of rows) {
    const row = document.createElement('div');
    row.style.cssText = 'display:flex;gap:8px;align-items:center';
    const dot = document.createElement('i');
    dot.style.cssText = `width:9px;height:9px;border-radius:2px;background:${colour ?? 'transparent'}`;
    const label = document.createElement('span');
    label.textContent = name;
    const text = document.createElement('b');
    text.textContent = value;
    text.style.cssText = 'margin-left:auto;padding-left:14px;font-weight:600';
    if (colour) row.append(dot);
    row.append(label, text);
    box.append(row);
  }
  return box;
}

// ---- Charts

const charts = [];

const hasValue = (item) => {
  const value = item?.value ?? item;
  return value !== null && (!Array.isArray(value) || value.every((v) => v !== null));
};

const nothing = () => ({
  animation: false,
  title: {
    text: 'Nothing to draw here',
    left: 'center',
    top: 'middle',
    textStyle: { color: css('--muted'), fontSize: 13, fontWeight: 400, fontFamily: css('--font') },
  },
});

/**
 * Draws `build()`, an ECharts option, into the card `id`, and again when the theme, the width or a switch changes.
 * `canvas` for charts of thousands of marks; the others are SVG, which prints better.
 */
function chart(id, build, { canvas = false, height = null } = {}) {
  const element = document.getElementById(`chart-${id}`);
  if (!element) return;
  if (height) element.style.height = `${height}px`;
  const instance = echarts.init(element, null, { renderer: canvas ? 'canvas' : 'svg' });
  instance.on('rendered', () => { element.dataset.drawn = 'true'; });
  const redraw = () => {
    const option = { ...common(), ...build(element) };
    instance.setOption(option.series.some((s) => s.data.some(hasValue)) ? option : nothing(), { notMerge: true });
  };
  charts.push({ element, instance, redraw });
  redraw();
}

/**
 * A switch in the head of card `id`: buttons, or a list when there are many. Returns the function that tells the chosen
 * value. With fewer than two options nothing is shown.
 */
function choice(id, label, options, start = 0) {
  let chosen = options[start]?.value;
  const change = (value) => {
    chosen = value;
    charts.filter((c) => c.element.id === `chart-${id}`).forEach((c) => c.redraw());
  };
  const place = document.getElementById(`controls-${id}`);
  if (place && options.length > 1) {
    place.append(options.length > 5 ? list(label, options, start, change) : buttons(`${id} ${label}`, label, options, start, change));
  }
  return () => chosen;
}

function buttons(name, label, options, start, change) {
  const set = document.createElement('fieldset');
  set.className = 'choice';
  const legend = document.createElement('legend');
  legend.textContent = label;
  set.append(legend);
  options.forEach((option, i) => {
    const item = document.createElement('label');
    const input = document.createElement('input');
    input.type = 'radio';
    input.name = name;
    input.checked = i === start;
    input.addEventListener('change', () => change(option.value));
    const text = document.createElement('span');
    text.textContent = option.label;
    item.append(input, text);
    set.append(item);
  });
  return set;
}

function list(label, options, start, change) {
  const select = document.createElement('select');
  select.setAttribute('aria-label', label);
  options.forEach((option, i) => select.add(new Option(option.label, i, i === start, i === start)));
  select.addEventListener('change', () => change(options[select.value].value));
  return select;
}

const schemeOptions = (has) => schemes.map((s, i) => ({ label: s.name, value: i })).filter((o) => has(schemes[o.value]));
