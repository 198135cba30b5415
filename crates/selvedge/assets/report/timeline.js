// What happened when: links that failed, and flows that had not finished, from their start to the end of their run.

const events = data.timeline?.links ?? [];
const eventWords = (e) => `${e.point ? `${e.point}: ` : ''}${e.link} ${e.up ? 'recovers' : 'fails'}`;

// A row a scheme; of several points of a sweep a row for each scheme that left flows unfinished there.
const timelineRows = (data.timeline?.points.length ? data.timeline.points : ['']).flatMap((point) => schemes.map((s, i) => (
  { point, i, name: point ? `${point}: ${s.name}` : s.name, flows: s.unfinished_flows.filter((f) => f.point === point) }
))).filter((row, _, all) => !row.point || row.flows.length || !all.some((other) => other.flows.length));

/** A bar within the row of its scheme, the n-th of so many. */
function unfinishedBar(params, api) {
  const [x1, y] = api.coord([api.value(0), api.value(2)]);
  const [x2] = api.coord([api.value(1), api.value(2)]);
  const band = api.size([0, 1])[1] * 0.8;
  const [nth, all] = [api.value(3), api.value(4)];
  const height = Math.min(8, Math.max(1, band / all - 0.5));
  return {
    type: 'rect',
    shape: { x: x1, y: y - band / 2 + (band * (nth + 0.5)) / all - height / 2, width: Math.max(1, x2 - x1), height },
    style: { fill: api.visual('color') },
  };
}

/** A stroke over the whole height where a link changes. */
function eventStroke(params, api) {
  const [x] = api.coord([api.value(0), 0]);
  const { y, height } = params.coordSys;
  const event = events[params.dataIndex];
  const stroke = event.up ? css('--muted') : css('--text');
  const right = x > params.coordSys.x + params.coordSys.width * 0.7;
  return {
    type: 'group',
    children: [
      { type: 'line', shape: { x1: x, y1: y - 14, x2: x, y2: y + height }, style: { stroke, lineWidth: 1.5, lineDash: event.up ? [4, 3] : null } },
      { type: 'text', style: { text: eventWords(event), x: right ? x - 5 : x + 5, y: y - 16 - 13 * (params.dataIndex % 2), fill: stroke, font: `12px ${css('--font')}`, textAlign: right ? 'right' : 'left' } },
    ],
  };
}

if (data.timeline) {
  chart('timeline', () => ({
    grid: { left: 8, right: 24, top: events.length ? 44 : 12, bottom: 26, containLabel: true },
    xAxis: axis({ type: 'value', name: 'simulated time', nameGap: 26, min: 0, max: data.timeline.ends_ms, axisLabel: { formatter: time }, splitLine: { show: false } }),
    yAxis: axis({ type: 'category', inverse: true, data: timelineRows.map((row) => row.name), axisLabel: { color: css('--text'), fontSize: 13, width: narrow() ? 80 : 160, overflow: 'truncate' } }),
    tooltip: {
      ...common().tooltip,
      formatter: (p) => {
        if (p.seriesName === 'links') return tip(time(p.value[0]), [[null, eventWords(events[p.dataIndex]), '']]);
        const row = timelineRows[p.value[2]];
        const f = row.flows[p.value[3]];
        return tip(f.flow, [[schemeColour(row.i), 'started', time(f.from_ms)], [null, 'delivered', percent(f.delivered)], [null, f.cause, '']]);
      },
    },
    series: [
      ...timelineRows.map((row, n) => ({
        name: row.name,
        type: 'custom',
        renderItem: unfinishedBar,
        itemStyle: { color: schemeColour(row.i) },
        encode: { x: [0, 1], y: 2 },
        data: row.flows.map((f, nth) => [f.from_ms, f.to_ms, n, nth, row.flows.length]),
      })),
      { name: 'links', type: 'custom', renderItem: eventStroke, encode: { x: 0 }, data: events.map((e) => [e.at_ms, 0]) },
    ],
  }), { height: 90 + 46 * timelineRows.length });
}
