// What the flows saw: throughput, completion times, slowdown, round-trip times.

// ---- Throughput: a bar a scheme with a dot a flow, or each flow by itself

const flowNames = union(schemes.map((s) => s.throughput.map((t) => t.name)));
const throughputView = choice('throughput', 'Show', [
  { label: 'Mean and spread', value: 'spread' },
  { label: 'Each flow', value: 'flows' },
]);

const throughputMean = (s) => s.throughput_mean_gbps ?? mean(s.throughput.map((t) => t.gbps));

function throughputSpread() {
  const shown = schemes.map((s, i) => ({ s, i })).filter(({ s }) => s.throughput.length);
  const most = Math.max(...shown.map(({ s }) => s.throughput.length));
  const dots = most > 300 ? 3 : most > 60 ? 4 : 6;
  return {
    grid: { left: 8, right: 24, top: 8, bottom: 26, containLabel: true },
    xAxis: axis({ type: 'value', name: 'Gbps', nameGap: 26, min: 0 }),
    yAxis: axis({
      type: 'category',
      inverse: true,
      data: shown.map(({ s }) => s.name),
      axisLabel: { color: css('--text'), fontSize: 13, width: narrow() ? 80 : 160, overflow: 'truncate' },
    }),
    tooltip: {
      ...common().tooltip,
      formatter: (p) => {
        const { s, i } = shown[p.seriesType === 'bar' ? p.dataIndex : p.data.value[1]];
        if (p.seriesType !== 'bar') return tip(p.data.flow, [[schemeColour(i), s.name, `${num(p.data.value[0])} Gbps`]]);
        const all = s.throughput.map((t) => t.gbps);
        return tip(s.name, [
          [null, 'mean', `${num(throughputMean(s))} Gbps`],
          [null, 'flows shown', all.length],
          [null, 'least', `${num(Math.min(...all))} Gbps`],
          [null, 'most', `${num(Math.max(...all))} Gbps`],
        ]);
      },
    },
    series: [
      {
        type: 'bar',
        barWidth: '58%',
        barMaxWidth: 56,
        data: shown.map(({ s, i }) => ({
          value: throughputMean(s),
          itemStyle: { color: faint(schemeColour(i)), borderColor: schemeColour(i), borderRadius: [0, 5, 5, 0] },
        })),
        label: { show: true, position: 'insideLeft', distance: 10, fontSize: 15, fontWeight: 650, color: css('--text'), formatter: (p) => num(p.value) },
      },
      {
        type: 'scatter',
        symbolSize: dots,
        data: shown.flatMap(({ s, i }, row) => s.throughput.map((t, k) => ({
          value: [t.gbps, row],
          flow: t.name,
          // Spread over the bar's height, the same at every drawing.
          symbolOffset: [0, (((k * 0.618034) % 1) - 0.5) * 34],
          itemStyle: { color: schemeColour(i), opacity: 0.85 },
        }))),
      },
    ],
  };
}

function throughputFlows() {
  const many = flowNames.length > 48;
  const value = (s) => {
    const of = new Map(s.throughput.map((t) => [t.name, t.gbps]));
    return many ? s.throughput.map((t) => t.gbps).sort((a, b) => a - b) : flowNames.map((n) => of.get(n) ?? null);
  };
  return {
    legend: legend(many),
    grid: { left: 28, right: 14, top: 36, bottom: 26, containLabel: true },
    xAxis: axis({
      type: 'category',
      data: many ? flowNames.map((_, i) => i + 1) : flowNames,
      name: many ? 'flows, slowest first' : undefined,
      nameGap: 26,
      axisLabel: { rotate: many || flowNames.length <= 8 ? 0 : 50, fontSize: 11, width: 90, overflow: 'truncate' },
      splitLine: { show: false },
    }),
    yAxis: axis({ type: 'value', name: 'Gbps', nameGap: 30, min: 0 }),
    tooltip: { ...common().tooltip, trigger: 'axis', formatter: axisTip((v) => `${num(v)} Gbps`) },
    series: schemes.map((s, i) => ({
      name: s.name,
      type: many ? 'line' : 'bar',
      symbol: 'none',
      barGap: '8%',
      barMaxWidth: 36,
      itemStyle: { color: schemeColour(i), borderRadius: [2, 2, 0, 0] },
      lineStyle: { color: schemeColour(i), type: schemeDash(i), width: 2 },
      data: value(s),
    })),
  };
}

/** A tooltip of all schemes at one place of the x axis. */
function axisTip(format, title = (p) => p.axisValueLabel) {
  return (points) => tip(title(points[0]), points.map((p) => [p.color, p.seriesName, format(Array.isArray(p.value) ? p.value[1] : p.value)]));
}

chart('throughput', () => (throughputView() === 'spread' ? throughputSpread() : throughputFlows()));

// ---- Goodput over time

const end = (series) => series.start_ms + series.values.length * series.step_ms;
const points = (series) => series.values.map((v, i) => [series.start_ms + (i + 0.5) * series.step_ms, v]);

chart('goodput', () => ({
  legend: legend(true),
  grid: { left: 28, right: 30, top: 36, bottom: 26, containLabel: true },
  xAxis: axis({ type: 'value', name: 'simulated time', nameGap: 26, ...timeRange(schemes.map((s) => s.goodput)), axisLabel: { formatter: time }, splitLine: { show: false } }),
  yAxis: axis({ type: 'value', name: 'Gbps', nameGap: 36, min: 0 }),
  tooltip: { ...common().tooltip, trigger: 'axis', formatter: axisTip((v) => `${num(v)} Gbps`, (p) => time(p.value[0])) },
  series: schemes.map((s, i) => ({
    name: s.name,
    type: 'line',
    symbol: 'none',
    itemStyle: { color: schemeColour(i) },
    lineStyle: { color: schemeColour(i), type: schemeDash(i), width: 2 },
    data: s.goodput ? points(s.goodput) : [],
    markLine: i > 0 ? undefined : {
      symbol: 'none',
      silent: true,
      lineStyle: { color: css('--muted'), type: 'solid', width: 1 },
      label: { color: css('--muted'), fontSize: 11, formatter: (p) => p.name },
      data: (data.timeline?.links ?? []).map((e) => ({ xAxis: e.at_ms, name: e.up ? 'recovers' : 'fails' })),
    },
  })),
}));

function timeRange(list) {
  const known = list.filter(Boolean);
  return known.length ? { min: Math.min(...known.map((g) => g.start_ms)), max: Math.max(...known.map(end)) } : {};
}

// ---- Distributions

/**
 * Curves on a log axis of values: the share at most x, or, for the tail, the share of at least x on a log axis.
 * `curve(scheme)` gives a Cdf or undefined; `list` has others than schemes.
 */
function distribution(curve, tail, what, list = schemes) {
  const unit = list.map(curve).find(Boolean)?.unit ?? '';
  const format = inUnit(unit);
  const line = (cdf) => {
    const all = cdf.count + cdf.censored;
    const known = cdf.points.filter(([x]) => x > 0);
    return tail ? known.map(([x, y]) => [x, Math.max(1 - y + 1 / all, 1 / all)]) : known;
  };
  const values = list.map(curve).filter(Boolean).flatMap((c) => c.points.map((p) => p[0])).filter((x) => x > 0);
  const [low, high] = values.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, 0]);
  const share = (y) => (tail ? `${num(y * 100)}% beyond` : `${num(y * 100)}%`);
  return {
    legend: legend(true, list),
    grid: { left: tail ? 38 : 28, right: 22, top: 36, bottom: 8, containLabel: true },
    xAxis: axis({
      type: 'log',
      ...(values.length ? logRange(low, high) : {}),
      axisLabel: { formatter: format },
    }),
    yAxis: tail
      ? axis({ type: 'log', name: `share of ${what} beyond`, nameGap: 54, max: 1, axisLabel: { formatter: percent } })
      : axis({ type: 'value', name: `share of ${what}`, nameGap: 44, min: 0, max: 1, axisLabel: { formatter: percent } }),
    tooltip: {
      ...common().tooltip,
      trigger: 'axis',
      axisPointer: { type: 'line', lineStyle: { color: css('--muted') } },
      formatter: (hits) => tip(format(hits[0].axisValue), hits.map((p) => [p.color, p.seriesName, share(p.value[1])])),
    },
    series: list.map((s, i) => ({
      name: s.name,
      type: 'line',
      step: 'end',
      symbol: 'none',
      itemStyle: { color: schemeColour(i) },
      lineStyle: { color: schemeColour(i), type: schemeDash(i), width: 2.2 },
      data: curve(s) ? line(curve(s)) : [],
    })),
  };
}

/** Limits of a log axis that leave little empty. */
function logRange(low, high) {
  const nice = (x, round) => {
    const decade = 10 ** Math.floor(Math.log10(x));
    return round(x / decade) * decade;
  };
  return { min: nice(low, Math.floor), max: Math.max(nice(high, Math.ceil), nice(low, Math.floor) * 10) };
}

const classes = union(schemes.map((s) => s.fct.map((f) => f.class)));
const fctClass = choice('fct', 'Flows', classes.map((c) => ({ label: c, value: c })));
const fctView = choice('fct', 'Curve', [{ label: 'CDF', value: false }, { label: 'Tail', value: true }]);
chart('fct', () => distribution((s) => s.fct.find((f) => f.class === fctClass())?.cdf, fctView(), 'flows'));

const rttView = choice('rtt', 'Curve', [{ label: 'CDF', value: false }, { label: 'Tail', value: true }]);
chart('rtt', () => distribution((s) => s.rtt ?? undefined, rttView(), 'samples'));

// ---- Slowdown by flow size

const sizes = union(schemes.map((s) => s.slowdown.map((b) => b.size_label)));
// Begins with the percentile that more sizes have.
const sizesWith = (key) => sizes.filter((z) => schemes.some((s) => Number.isFinite(s.slowdown.find((b) => b.size_label === z)?.[key]))).length;
const percentiles = [{ label: 'p99', value: 'p99' }, { label: 'Median', value: 'p50' }];
const slowdownView = choice('slowdown', 'Percentile', percentiles, sizesWith('p99') < sizesWith('p50') ? 1 : 0);

const slanted = () => narrow() && sizes.length > 4;

/** From the ideal, 1, to a little over the largest. */
function slowdownRange() {
  const known = schemes.flatMap((s) => s.slowdown.map((b) => b[slowdownView()])).filter((x) => x > 0);
  return { min: Math.min(1, ...known), max: logRange(1, Math.max(1, ...known)).max };
}

chart('slowdown', () => ({
  legend: legend(),
  grid: { left: 28, right: 18, top: 36, bottom: slanted() ? 6 : 28, containLabel: true },
  xAxis: axis({
    type: 'category',
    data: sizes,
    name: slanted() ? undefined : 'flow size',
    nameGap: 28,
    axisLabel: { rotate: slanted() ? 40 : 0 },
    splitLine: { show: false },
  }),
  yAxis: axis({ type: 'log', ...slowdownRange(), name: 'slowdown', nameGap: 36, axisLabel: { formatter: (v) => `${num(v)}×` } }),
  tooltip: { ...common().tooltip, trigger: 'axis', formatter: axisTip((v) => `${num(v)}×`) },
  series: schemes.map((s, i) => ({
    name: s.name,
    type: 'line',
    symbol: schemeSymbol(i),
    symbolSize: 8,
    itemStyle: { color: schemeColour(i) },
    lineStyle: { color: schemeColour(i), type: schemeDash(i), width: 2.2 },
    connectNulls: true,
    data: sizes.map((size) => s.slowdown.find((b) => b.size_label === size)?.[slowdownView()] ?? null),
  })),
}));
