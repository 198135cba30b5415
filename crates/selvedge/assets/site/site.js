// Draws what was measured as a dot with its 95% interval, and what the paper prints as a diamond; a row each. Over an axis of numbers it draws lines.
// The page reports on itself, for tests: data-charts, data-drawn and data-state.
document.addEventListener('DOMContentLoaded', () => {
  'use strict';
  const root = document.documentElement;
  const charts = [];

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const escaped = (text) => {
    const element = document.createElement('span');
    element.textContent = text;
    return element.innerHTML;
  };
  const digits = (x) => Number(x.toPrecision(3)).toLocaleString('en', { maximumSignificantDigits: 3 });

  // An interval as a line between two ends.
  const interval = (params, api) => {
    const row = api.value(0);
    const [from, to] = [api.coord([api.value(1), row]), api.coord([api.value(2), row])];
    const line = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: colour('--s0'), lineWidth: 2 } });
    return {
      type: 'group',
      children: [
        line(from[0], from[1], to[0], to[1]),
        line(from[0], from[1] - 5, from[0], from[1] + 5),
        line(to[0], to[1] - 5, to[0], to[1] + 5),
      ],
    };
  };

  const option = ({ unit, dots }, width) => {
    const room = Math.min(360, Math.floor(width * 0.4));
    const text = { color: colour('--text') };
    const muted = { color: colour('--muted') };
    const printed = dots.some((dot) => dot.paper !== null);
    const bounded = dots.map((dot, row) => [row, dot]).filter(([, dot]) => dot.half_width !== null);
    return {
      animation: false,
      title: { text: unit, left: room + 16, top: 0, textStyle: { ...muted, fontSize: 12, fontWeight: 'normal' } },
      grid: { left: room + 16, right: 30, top: 30, bottom: 30 },
      legend: { top: 0, right: 30, data: printed ? ['measured', 'paper'] : ['measured'], textStyle: text },
      tooltip: {
        trigger: 'axis',
        axisPointer: { type: 'none' },
        formatter: (items) => {
          const dot = dots[items[0].dataIndex];
          const half = dot.half_width === null ? '' : ` ± ${digits(dot.half_width)}`;
          const paper = dot.paper === null ? '' : `<br>paper ${digits(dot.paper)} ${escaped(unit)}`;
          return `<b>${escaped(dot.label)}</b><br>${dot.value === null ? 'not measured' : `measured ${digits(dot.value)}${half} ${escaped(unit)}`}${paper}`;
        },
        confine: true,
      },
      xAxis: {
        type: 'value', scale: true, axisLabel: muted, splitLine: { lineStyle: { color: colour('--grid') } },
      },
      yAxis: {
        type: 'category', inverse: true, data: dots.map((dot) => dot.label),
        axisLabel: { ...text, interval: 0, formatter: (label) => shorten(label, Math.floor(room / 6.4)) },
        axisTick: { show: false }, axisLine: { lineStyle: { color: colour('--line') } },
      },
      series: [
        {
          name: 'interval', type: 'custom', renderItem: interval, silent: true, encode: { x: [1, 2], y: 0 },
          data: bounded.map(([row, dot]) => [row, dot.value - dot.half_width, dot.value + dot.half_width]),
        },
        {
          name: 'measured', type: 'scatter', symbolSize: 9, itemStyle: { color: colour('--s0') },
          data: dots.map((dot) => dot.value),
        },
        {
          name: 'paper', type: 'scatter', symbol: 'diamond', symbolSize: 12, itemStyle: { color: colour('--s1') },
          data: dots.map((dot) => dot.paper),
        },
      ],
    };
  };

  // Upright intervals of a line's points.
  const whisker = (stroke) => (params, api) => {
    const x = api.value(0);
    const [low, high] = [api.coord([x, api.value(1)]), api.coord([x, api.value(2)])];
    const line = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke, lineWidth: 1.5 } });
    return {
      type: 'group',
      children: [
        line(low[0], low[1], high[0], high[1]),
        line(low[0] - 4, low[1], low[0] + 4, low[1]),
        line(high[0] - 4, high[1], high[0] + 4, high[1]),
      ],
    };
  };

  // Lines over an axis of numbers, with the paper's points as diamonds of the same colour.
  const curve = ({ axis, unit, lines }) => {
    const text = { color: colour('--text') };
    const muted = { color: colour('--muted') };
    const grid = { splitLine: { lineStyle: { color: colour('--grid') } }, axisLabel: muted };
    const places = lines.flatMap(({ points }) => points.map(([x]) => x));
    const wide = Math.min(...places) > 0 && Math.max(...places) / Math.min(...places) > 50;
    const series = lines.flatMap(({ name, points, paper }, n) => {
      const ink = colour(`--s${n % 8}`);
      const bounded = points.filter(([, , half]) => half !== null);
      return [
        { name, type: 'line', symbolSize: 7, itemStyle: { color: ink }, lineStyle: { color: ink }, encode: { x: 0, y: 1 }, data: points },
        {
          name, type: 'custom', renderItem: whisker(ink), silent: true, encode: { x: 0, y: [1, 2] }, tooltip: { show: false },
          data: bounded.map(([x, y, half]) => [x, y - half, y + half]),
        },
        { name: `${name}, paper`, type: 'scatter', symbol: 'diamond', symbolSize: 13, itemStyle: { color: ink, borderColor: colour('--text') }, data: paper },
      ].filter(({ data }) => data.length > 0);
    });
    return {
      animation: false,
      title: { text: unit, left: 10, top: 0, textStyle: { ...muted, fontSize: 12, fontWeight: 'normal' } },
      grid: { left: 64, right: 24, top: 58, bottom: 46 },
      legend: { type: 'scroll', top: 22, left: 10, textStyle: text, data: [...new Set(series.map(({ name }) => name))] },
      tooltip: { trigger: 'item', confine: true, formatter: ({ seriesName, value: [x, y, half] }) => `<b>${escaped(seriesName)}</b><br>${digits(y)}${half ? ` ± ${digits(half)}` : ''} at ${x}` },
      xAxis: { type: wide ? 'log' : 'value', name: axis, nameLocation: 'middle', nameGap: 28, nameTextStyle: muted, scale: true, ...grid },
      yAxis: { type: 'value', scale: true, ...grid },
      series,
    };
  };

  const draw = () => {
    for (const { chart, data, element } of charts) {
      chart.setOption(data.lines ? curve(data) : option(data, element.clientWidth), true);
    }
  };
  for (const dots of document.querySelectorAll('.dots')) {
    const element = dots.querySelector('.chart');
    const data = JSON.parse(dots.querySelector('script').textContent);
    const chart = echarts.init(element, null, { renderer: 'svg' });
    chart.on('finished', () => { element.dataset.drawn = 'true'; });
    charts.push({ chart, data, element });
  }
  root.dataset.charts = charts.length;
  draw();
  window.addEventListener('resize', () => { charts.forEach(({ chart }) => chart.resize()); draw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  root.dataset.state = 'ready';
});
