// What the fabric saw: utilisation of links, queues, the drawing.

const nodes = new Map(data.topology.nodes.map((n) => [n.name, n]));
const links = new Map(data.topology.links.map((l) => [l.name, l]));
const isHost = (name) => nodes.get(name)?.kind === 'host';
const touchesHost = (link) => Boolean(link) && (isHost(link.a) || isHost(link.b));

/** One direction of a link, as a key and as a reader would say it. */
const wayKey = (u) => JSON.stringify([u.link, u.dir]);
function wayName(u) {
  const link = links.get(u.link);
  const forth = u.dir === 'a_to_b';
  if (!link) return `${u.link} ${forth ? '→' : '←'}`;
  const twins = data.topology.links.filter((l) => (l.a === link.a && l.b === link.b) || (l.a === link.b && l.b === link.a));
  const ends = forth ? `${link.a} → ${link.b}` : `${link.b} → ${link.a}`;
  return twins.length > 1 ? `${ends} (${link.name})` : ends;
}

// ---- Heat map

const ways = new Map();
for (const s of schemes) {
  for (const u of s.link_utilisation) {
    if (!ways.has(wayKey(u))) ways.set(wayKey(u), { key: wayKey(u), name: null, u, host: touchesHost(links.get(u.link)) });
  }
}
for (const way of ways.values()) {
  const link = links.get(way.u.link);
  const tier = (name) => nodes.get(name)?.tier ?? 0;
  way.name = wayName(way.u);
  way.up = !link || (tier(link.a) <= tier(link.b)) === (way.u.dir === 'a_to_b');
}
// All that lead up, then all that lead down: the links that one switch chooses among stand together.
const upFirst = [...ways.values()].sort((a, b) => b.up - a.up);
const wayGroups = [
  { label: 'Fabric links', value: upFirst.filter((w) => !w.host) },
  { label: 'Host links', value: upFirst.filter((w) => w.host) },
].filter((group) => group.value.length);

const heatLinks = choice('heat', 'Links', wayGroups);
const heatView = choice('heat', 'Show', [
  { label: 'All schemes', value: -1 },
  ...schemeOptions((s) => s.link_utilisation.some((u) => u.series)).map((o) => ({ label: `${o.label} over time`, value: o.value })),
]);

/** With more rows than this, not every row is named, and no gaps are left between them. */
const MOST_ROW_NAMES = 60;

function heat(columns, cells, labels, rows, describe) {
  const numbers = labels && rows.length <= 40;
  const colours = heatColours();
  return {
    grid: { left: 8, right: 10, top: 54, bottom: 8, containLabel: true },
    xAxis: axis({ type: 'category', position: 'top', data: columns, splitLine: { show: false }, axisLabel: { color: css('--text'), interval: labels ? 0 : 'auto', width: 110, overflow: 'truncate' } }),
    yAxis: axis({ type: 'category', inverse: true, data: rows.map((w) => w.name), splitLine: { show: false }, axisLabel: { fontSize: 11, interval: Math.ceil(rows.length / MOST_ROW_NAMES) - 1 } }),
    visualMap: scale({ left: 0, top: 0 }),
    tooltip: { ...common().tooltip, formatter: (p) => describe(p.value) },
    series: [{
      type: 'heatmap',
      data: cells.filter((c) => c[2] !== null).map((c) => (numbers ? { value: c, label: { color: ink(blend(colours, c[2])) } } : c)),
      itemStyle: labels && rows.length <= MOST_ROW_NAMES ? { borderColor: css('--card'), borderWidth: 1.5, borderRadius: 3 } : {},
      label: { show: numbers, fontSize: 11, formatter: (p) => `${Math.round(p.value[2] * 100)}%` },
      emphasis: { itemStyle: { borderColor: css('--text'), borderWidth: 1.5 } },
      progressive: 0,
    }],
  };
}

/** Black or white, whichever reads better on a colour. */
function ink(colour) {
  const [r, g, b] = colour.match(/\d+/g).map((v) => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.22 ? '#10151c' : '#ffffff';
}

/** The colour scale that heat map and drawing share: 0 to 100% of capacity. */
function scale(place) {
  return {
    type: 'continuous',
    min: 0,
    max: 1,
    calculable: false,
    orient: 'horizontal',
    itemWidth: 12,
    itemHeight: narrow() ? 110 : 170,
    text: ['100%', '0%'],
    textStyle: { color: css('--muted') },
    inRange: { color: heatColours() },
    ...place,
  };
}

function heatBySchemes() {
  const rows = heatLinks() ?? [];
  const of = schemes.map((s) => new Map(s.link_utilisation.map((u) => [wayKey(u), u.mean])));
  // A scheme that ran on another network, such as one big switch, has no such links.
  const shown = schemes.map((_, i) => i).filter((i) => rows.some((w) => of[i].has(w.key)));
  const cells = rows.flatMap((w, y) => shown.map((i, x) => [x, y, of[i].get(w.key) ?? null]));
  return heat(shown.map((i) => schemes[i].name), cells, true, rows, ([x, y, v]) =>
    tip(rows[y].name, [[schemeColour(shown[x]), schemes[shown[x]].name, percent(v)]]));
}

function heatOverTime(index) {
  const rows = heatLinks() ?? [];
  const of = new Map(schemes[index].link_utilisation.map((u) => [wayKey(u), u]));
  const first = schemes[index].link_utilisation.find((u) => u.series)?.series ?? { start_ms: 0, step_ms: 1 };
  const steps = Math.max(0, ...rows.map((w) => of.get(w.key)?.series?.values.length ?? 0));
  const times = Array.from({ length: steps }, (_, i) => first.start_ms + i * first.step_ms);
  const cells = rows.flatMap((w, y) => (of.get(w.key)?.series?.values ?? []).map((v, x) => [x, y, v]));
  return heat(times.map(time), cells, false, rows, ([x, y, v]) =>
    tip(rows[y].name, [[schemeColour(index), `${schemes[index].name}, from ${time(times[x])}`, percent(v)]]));
}

const mostRows = Math.max(1, ...wayGroups.map((g) => g.value.length));
const mostSteps = Math.max(0, ...schemes.flatMap((s) => s.link_utilisation.map((u) => u.series?.values.length ?? 0)));
chart('heat', () => (heatView() < 0 ? heatBySchemes() : heatOverTime(heatView())), {
  canvas: mostRows * Math.max(schemes.length, mostSteps) > 8000,
  height: Math.min(900, Math.max(360, mostRows * 17 + 90)),
});

// ---- Queues: the deepest ports

const SHOWN_PORTS = 16;
const queueView = choice('queue', 'Depth', [{ label: 'Mean', value: 'mean_kb' }, { label: 'Largest', value: 'max_kb' }]);

chart('queue', () => {
  const key = queueView();
  const of = schemes.map((s) => new Map(s.queue.map((q) => [q.port, q[key]])));
  const deepest = (port) => Math.max(...of.map((m) => m.get(port) ?? 0));
  const ports = union(schemes.map((s) => s.queue.map((q) => q.port)));
  const shown = ports.map((p) => [p, deepest(p)]).sort((a, b) => b[1] - a[1]).slice(0, narrow() ? 8 : SHOWN_PORTS).map(([p]) => p);
  return {
    legend: legend(),
    grid: { left: 28, right: 14, top: 36, bottom: ports.length > shown.length ? 26 : 6, containLabel: true },
    xAxis: axis({
      type: 'category',
      data: shown,
      name: ports.length > shown.length ? `${shown.length} of ${ports.length} ports` : undefined,
      nameGap: 82,
      axisLabel: { rotate: 45, fontSize: 11, interval: 0, width: 90, overflow: 'truncate' },
      splitLine: { show: false },
    }),
    yAxis: axis({ type: 'value', name: 'KB', nameGap: 40, min: 0 }),
    tooltip: { ...common().tooltip, trigger: 'axis', formatter: axisTip((v) => `${num(v)} KB`) },
    series: schemes.map((s, i) => ({
      name: s.name,
      type: 'bar',
      barGap: '8%',
      barMaxWidth: 36,
      itemStyle: { color: schemeColour(i), borderRadius: [2, 2, 0, 0] },
      data: shown.map((p) => of[i].get(p) ?? null),
    })),
  };
});

// ---- Topology

const topologyScheme = choice('topology', 'Scheme', schemeOptions((s) => s.link_utilisation.length));

/** Each link twice, one a direction, bent apart; parallel links bend more. */
function edges(utilisation) {
  const seen = new Map();
  const colours = heatColours();
  const fastest = Math.max(...data.topology.links.map((l) => l.rate_gbps), 0);
  return data.topology.links.filter((l) => nodes.has(l.a) && nodes.has(l.b)).flatMap((l) => {
    const pair = JSON.stringify([l.a, l.b].sort());
    const nth = seen.get(pair) ?? 0;
    seen.set(pair, nth + 1);
    return ['a_to_b', 'b_to_a'].map((dir) => {
      const used = utilisation.get(wayKey({ link: l.name, dir }));
      const [source, target] = dir === 'a_to_b' ? [l.a, l.b] : [l.b, l.a];
      return {
        source,
        target,
        used: used ?? null,
        rate: l.rate_gbps,
        lineStyle: {
          color: used === undefined ? css('--line') : blend(colours, used),
          width: (used === undefined ? 1 : 1.6 + 1.8 * used) * (l.rate_gbps < fastest ? 0.8 : 1),
          curveness: 0.035 + 0.07 * nth,
          opacity: 1,
        },
      };
    });
  });
}

/** The colour at `x`, 0 to 1, on a scale of evenly spaced colours. */
function blend(colours, x) {
  const at = Math.min(Math.max(x, 0), 1) * (colours.length - 1);
  const i = Math.min(Math.floor(at), colours.length - 2);
  const rgb = (c) => [1, 3, 5].map((k) => parseInt(c.slice(k, k + 2), 16));
  const [from, to] = [rgb(colours[i]), rgb(colours[i + 1])];
  return `rgb(${from.map((v, k) => Math.round(v + (to[k] - v) * (at - i))).join(',')})`;
}

chart('topology', (element) => {
  const s = schemes[topologyScheme()];
  const utilisation = new Map((s?.link_utilisation ?? []).map((u) => [wayKey(u), u.mean]));
  const hosts = data.topology.nodes.filter((n) => n.kind === 'host').length;
  const crowded = hosts > (narrow() ? 8 : 40);
  // The drawing fills its box: the scales of x and y are free.
  const xs = data.topology.nodes.map((n) => n.x);
  const ys = data.topology.nodes.map((n) => n.y);
  const fit = (v, all, size) => {
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return high > low ? ((v - low) / (high - low)) * size : size / 2;
  };
  const [width, height] = [Math.max(element.clientWidth - 60, 100), Math.max(element.clientHeight - 120, 100)];
  const room = hosts > 1 ? width / hosts : width;
  return {
    visualMap: { ...scale({ left: 0, top: 0 }), seriesIndex: [], show: utilisation.size > 0 },
    tooltip: {
      ...common().tooltip,
      formatter: (p) => (p.dataType === 'edge'
        ? tip(`${p.data.source} → ${p.data.target}`, [[null, `of ${num(p.data.rate)} Gbps`, percent(p.data.used)]])
        : tip(p.data.name, [[null, p.data.kind, '']])),
    },
    series: [{
      type: 'graph',
      layout: 'none',
      left: 30,
      right: 30,
      top: 60,
      bottom: 40,
      roam: data.topology.nodes.length > 60,
      scaleLimit: { min: 0.8, max: 12 },
      data: data.topology.nodes.map((n) => {
        const host = n.kind === 'host';
        return {
          name: n.name,
          kind: n.kind,
          x: fit(n.x, xs, width),
          y: fit(n.y, ys, height),
          symbol: host ? 'circle' : 'roundRect',
          symbolSize: host ? Math.max(5, Math.min(16, room * 0.4)) : [Math.max(26, Math.min(64, n.name.length * 9)), 26],
          itemStyle: { color: host ? css('--muted') : css('--card'), borderColor: css('--muted'), borderWidth: host ? 0 : 1.5 },
          label: {
            show: !(host && crowded),
            position: host ? 'bottom' : 'inside',
            color: host ? css('--muted') : css('--text'),
            fontSize: host ? 11 : 12,
            fontWeight: host ? 400 : 600,
            rotate: host && room < 34 ? 60 : 0,
            distance: host && room < 34 ? 12 : 5,
          },
        };
      }),
      edges: edges(utilisation),
      emphasis: { disabled: true },
    }],
  };
});
