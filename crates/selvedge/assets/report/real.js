// Real traffic behind rate limiters: each request's round trip, and the downloads beside which it went.

const limiters = data.real?.lines ?? [];
const requestsView = choice('requests', 'Show', [{ label: 'Over time', value: 'time' }, { label: 'CDF', value: false }, { label: 'Tail', value: true }]);

/** Strokes where the downloads begin and where counting begins. */
const phases = () => ({
  symbol: 'none',
  silent: true,
  lineStyle: { color: css('--muted'), type: [4, 3], width: 1 },
  label: { color: css('--muted'), fontSize: 11, formatter: (p) => p.name },
  data: [
    // One above the other: they are close together.
    { xAxis: 0, name: 'downloads begin', label: { distance: 18 } },
    { xAxis: data.real.warmup_s * 1e3, name: 'counting begins' },
  ],
});

const sinceDownloads = (from) => axis({ type: 'value', name: 'time since the downloads began', nameGap: 26, min: from, axisLabel: { formatter: time }, splitLine: { show: false } });

function requestTimes() {
  const all = limiters.flatMap((l) => l.requests);
  const known = all.map(([, took]) => took).filter((took) => took > 0);
  const [low, high] = known.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, 0]);
  return {
    legend: legend(false, limiters),
    grid: { left: 28, right: 18, top: 54, bottom: 26, containLabel: true },
    xAxis: sinceDownloads(Math.floor(all.reduce((least, [sent]) => Math.min(least, sent), 0)) * 1e3),
    yAxis: axis({ type: 'log', name: 'round trip', nameGap: 54, ...(known.length ? logRange(low, high) : {}), axisLabel: { formatter: time } }),
    tooltip: {
      ...common().tooltip,
      formatter: (p) => tip(p.seriesName, [[p.color, `sent at ${time(p.value[0])}`, time(p.value[1])]]),
    },
    series: limiters.map((l, i) => ({
      name: l.name,
      type: 'scatter',
      symbol: schemeSymbol(i),
      symbolSize: 4,
      itemStyle: { color: schemeColour(i), opacity: 0.75 },
      data: l.requests.filter(([, took]) => took > 0).map(([sent, took]) => [sent * 1e3, took]),
      markLine: i > 0 ? undefined : phases(),
    })),
  };
}

chart('requests', () => (requestsView() === 'time' ? requestTimes() : distribution((l) => l.beside, requestsView(), 'requests', limiters)), { canvas: true });

chart('downloads', () => ({
  legend: legend(true, limiters),
  grid: { left: 28, right: 30, top: 54, bottom: 26, containLabel: true },
  xAxis: sinceDownloads(0),
  yAxis: axis({ type: 'value', name: 'Mb/s', nameGap: 42, min: 0 }),
  tooltip: { ...common().tooltip, trigger: 'axis', formatter: axisTip((v) => `${num(v)} Mb/s`, (p) => time(p.value[0])) },
  series: limiters.map((l, i) => ({
    name: l.name,
    type: 'line',
    symbol: 'none',
    itemStyle: { color: schemeColour(i) },
    lineStyle: { color: schemeColour(i), type: schemeDash(i), width: 2 },
    data: points(l.downloads),
    markLine: i > 0 ? undefined : { ...phases(), data: phases().data.slice(1) },
  })),
}));
