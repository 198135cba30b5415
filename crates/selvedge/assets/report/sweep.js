// A metric of all schemes over the axis of a sweep, with the intervals over seeds.

const sweep = data.sweep;
const sweepMetric = choice('sweep', 'Metric', (sweep?.metrics ?? []).map((m) => ({ label: m.column.title, value: m })));

/** Low and high end of a value's interval; the value itself twice where there is none. */
const ends = ({ value, ci }) => (Number.isFinite(ci) ? [value - ci, value + ci] : [value, value]);

/** A line from end to end with a stroke across each. */
function whisker(params, api) {
  const [low, high] = [api.coord([api.value(0), api.value(1)]), api.coord([api.value(0), api.value(2)])];
  const style = { stroke: api.visual('color'), lineWidth: 1.4, fill: null };
  const line = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style });
  return {
    type: 'group',
    children: [
      line(low[0], low[1], high[0], high[1]),
      line(low[0] - 4, low[1], low[0] + 4, low[1]),
      line(high[0] - 4, high[1], high[0] + 4, high[1]),
    ],
  };
}

if (sweep) {
  chart('sweep', () => {
    const { column, lines } = sweepMetric();
    const of = new Map(lines.map((l) => [l.scheme, l.values]));
    const unit = column.unit ? ` ${column.unit}` : '';
    const said = (cell) => `${num(cell.value)}${unit}${Number.isFinite(cell.ci) ? ` ± ${num(cell.ci)}` : ''}`;
    const known = (s) => sweep.points
      .map((point, n) => ({ point, n, x: sweep.numbers ? sweep.numbers[n] : n, cell: of.get(s.name)?.[n] }))
      .filter(({ cell }) => Number.isFinite(cell?.value));
    return {
      legend: legend(),
      grid: { left: 40, right: 24, top: 36, bottom: 28, containLabel: true },
      xAxis: sweep.numbers
        ? axis({ type: 'value', name: sweep.axis, nameGap: 28, min: 'dataMin', max: 'dataMax', splitLine: { show: false } })
        : axis({ type: 'category', data: sweep.points, name: sweep.axis, nameGap: 28, axisLabel: { interval: 0, width: 110, overflow: 'truncate' }, splitLine: { show: false } }),
      yAxis: axis({ type: 'value', name: `${column.title}${column.unit ? `, ${column.unit}` : ''}`, nameGap: 44, min: ({ min }) => Math.min(0, min) }),
      tooltip: {
        ...common().tooltip,
        formatter: (p) => {
          const i = schemes.findIndex((s) => s.name === p.seriesName);
          const hit = known(schemes[i])[p.dataIndex];
          return tip(hit.point, [[schemeColour(i), p.seriesName, said(hit.cell)]]);
        },
      },
      series: schemes.flatMap((s, i) => [
        {
          name: s.name,
          type: 'line',
          symbol: schemeSymbol(i),
          symbolSize: 8,
          itemStyle: { color: schemeColour(i) },
          lineStyle: { color: schemeColour(i), type: schemeDash(i), width: 2.2 },
          data: known(s).map(({ x, cell }) => [x, cell.value]),
        },
        {
          name: s.name,
          type: 'custom',
          renderItem: whisker,
          itemStyle: { color: schemeColour(i) },
          encode: { x: 0, y: [1, 2] },
          data: known(s).map(({ x, cell }) => [x, ...ends(cell)]),
        },
      ]),
    };
  });
}
