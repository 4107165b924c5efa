/* SPDX-License-Identifier: MIT */
/* Draws the pictures of a report from the data in the page. Text from the data goes into text nodes only. */
(function () {
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const limits = document.getElementById('data').dataset;
const runs = data.runs;

/* Elements ---------------------------------------------------------------------------------------------------------- */

function make(name, attributes, parent, text) {
	const e = document.createElement(name);
	for (const key in attributes) e.setAttribute(key, attributes[key]);
	if (text !== undefined) e.textContent = text;
	if (parent) parent.append(e);
	return e;
}

function canvas(parent, width, height, label) {
	return draw('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label }, parent);
}

/* About what fits into so many pixels at 11 px. */
function fit(text, width) {
	const n = Math.floor(width / 6.1);
	return text.length <= n ? text : n < 3 ? '' : text.slice(0, n - 1) + '…';
}

/* Numbers ----------------------------------------------------------------------------------------------------------- */

function duration(s) {
	if (!known(s)) return '–';
	if (s < 60) return s.toFixed(1) + ' s';
	return minutes(Math.round(s));
}

function count(n) { return known(n) ? String(Math.round(n)) : '–'; }
/* At an axis that may end below 1. */
function figure(v) { return String(v < 10 ? +v.toPrecision(2) : Math.round(v)); }

function energy(j) {
	if (!known(j)) return '–';
	return j < 3600 ? Math.round(j) + ' J' : j < 3.6e7 ? (j / 3600).toFixed(1) + ' Wh' : (j / 3.6e6).toFixed(2) + ' kWh';
}

/* A round number at least v. */
function roundUp(v) {
	if (!(v > 0)) return 1;
	const unit = Math.pow(10, Math.floor(Math.log10(v)));
	return [1, 1.5, 2, 3, 4, 5, 8, 10].find(m => m * unit >= v * 0.9999) * unit;
}

/* Time -------------------------------------------------------------------------------------------------------------- */

const origin = runs.length === 1 && runs[0].origin ? Date.parse(runs[0].origin) : null;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600,
	604800, 1209600, 2592000, 7776000, 31536000, 315360000];

/* Running attempts end when that was so. */
function endOf(run, a) {
	if (known(a.end_s)) return a.end_s;
	return run.origin ? Math.max((Date.parse(run.made) - Date.parse(run.origin)) / 1000, a.start_s) : a.start_s;
}

const span = (function () {
	let from = 0, to = 0;
	for (const run of runs) {
		for (const task of run.tasks)
			for (const a of task.attempts)
				if (known(a.start_s)) {
					from = Math.min(from, a.start_s);
					to = Math.max(to, endOf(run, a));
				}
		/* What was watched went on when nothing ran, too. */
		if (run.tasks.every(task => task.state === 'watched'))
			for (const s of run.series) to = Math.max(to, s.from_s + s.step_s * s.mem_mib.length);
	}
	return { from, to: to > from ? to : from + 1 };
})();

/* One clock everywhere: the reader's zone, 24 hours. */
function day(d) { return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`; }
function clock(d) { return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`; }
function dayAndClock(d) { return `${day(d)} ${clock(d)}`; }

function moment(s) {
	return origin === null ? duration(s) : dayAndClock(new Date(origin + s * 1000));
}

function ticks(most) {
	const step = STEPS.find(x => (span.to - span.from) / x <= most) || STEPS[STEPS.length - 1];
	const zone = origin === null ? 0 : origin / 1000 - new Date(origin).getTimezoneOffset() * 60;
	const list = [];
	for (let at = Math.ceil((span.from + zone) / step) * step; at <= span.to + zone; at += step)
		list.push({ s: at - zone, text: tickText(at, step) });
	return list;
}

function tickText(at, step) {
	if (origin !== null) {
		const date = new Date(at * 1000);
		if (at % 86400 === 0) return `${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;
		return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}` + (step < 60 ? ':' + two(date.getUTCSeconds()) : '');
	}
	if (step >= 86400) return at / 86400 + ' d';
	if (step >= 3600) return at / 3600 + ' h';
	if (step >= 60) return at < 3600 ? at / 60 + ' min' : `${Math.floor(at / 3600)}:${two(at / 60 % 60)} h`;
	return at < 60 ? at + ' s' : `${Math.floor(at / 60)}:${two(at % 60)} min`;
}

/* Vertical rules with their times below (and above, where a picture is tall). */
function timeAxis(svg, x, top, bottom, above) {
	const g = draw('g', {}, svg), width = x(span.to) - x(span.from);
	for (const t of ticks(Math.max(2, Math.floor(width / 72)))) {
		draw('line', { class: 'rule', x1: x(t.s), x2: x(t.s), y1: top, y2: bottom }, g);
		const half = t.text.length * 3;
		if (x(t.s) + half > x(span.to) + 7) continue;	/* its text would stick out */
		const anchor = x(t.s) - half < 0 ? 'start' : 'middle';
		draw('text', { class: 'dim', x: x(t.s), y: bottom + 13, 'text-anchor': anchor }, g, t.text);
		if (above) draw('text', { class: 'dim', x: x(t.s), y: top - 4, 'text-anchor': anchor }, g, t.text);
	}
	return g;
}

/* What is pointed at ------------------------------------------------------------------------------------------------ */

const tip = make('div', { id: 'tip', role: 'tooltip', hidden: '' }, document.body);

function showTip(event, title, lines) {
	tip.replaceChildren();
	make('b', {}, tip, title);
	for (const line of lines) make('div', {}, tip, line);
	tip.hidden = false;
	const box = tip.getBoundingClientRect();
	tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + 'px';
	tip.style.top = (event.clientY + 18 + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 12)
		: event.clientY + 18) + 'px';
}

function hideTip() { tip.hidden = true; }

/* `find` gives {title, lines} for what lies under the pointer, or nothing. */
function pointed(svg, find) {
	const show = event => {
		const found = find(event);
		if (found) showTip(event, found.title, found.lines); else hideTip();
	};
	svg.addEventListener('pointermove', show);
	svg.addEventListener('pointerdown', show);
	svg.addEventListener('pointerleave', hideTip);
}
addEventListener('scroll', hideTip, { passive: true });

/* Legends ----------------------------------------------------------------------------------------------------------- */

function legend(parent, entries) {
	const list = make('p', { class: 'legend' }, parent);
	for (const [text, paint] of entries) {
		const item = make('span', {}, list);
		paint(draw('svg', { width: 24, height: 12, viewBox: '0 0 24 12', 'aria-hidden': 'true' }, item));
		item.append(text);
	}
}

function box(kind) { return svg => draw('rect', { class: kind, x: 1, y: 1, width: 22, height: 10 }, svg); }

function runStyle(i) {
	const dash = ['', '7 3', '2 2', '9 3 2 3', '4 4', '1 3'][i % 6];
	return { style: `stroke: var(--r${i % 6})` + (dash && runs.length > 1 ? `; stroke-dasharray: ${dash}` : '') };
}

function runLegend(parent) {
	if (runs.length > 1)
		legend(parent, runs.map((run, i) =>
			[run.name, svg => draw('path', { class: 'trace', d: 'M0 6H24', ...runStyle(i) }, svg)]));
}

/* Tasks on GPUs ----------------------------------------------------------------------------------------------------- */

const KINDS = [['ok', 'completed'], ['again', 'tried again'], ['oom', 'out of GPU memory'], ['failed', 'failed otherwise'],
	['cancelled', 'cancelled'], ['running', 'running'], ['watched', 'watched, from the first sight to the last']];

function kindOf(task, a, k) {
	if (task.state === 'watched') return 'watched';
	return known(a.end_s) ? kindOfEnd(a.verdict, k) : 'running';
}

function lanesOf(run) {
	const gpus = run.gpus.map(() => ({ bars: [], lanes: 0 }));
	for (const task of run.tasks)
		task.attempts.forEach((a, k) => {
			for (const gpu of known(a.start_s) ? a.gpus : [])
				gpus[gpu].bars.push({ task, a, k, from: a.start_s, to: endOf(run, a), kind: kindOf(task, a, k) });
		});
	for (const gpu of gpus) gpu.lanes = intoLanes(gpu.bars, 0.0005);
	return gpus;
}

function about(run, bar) {
	const { task, a, k } = bar, lines = [];
	lines.push(`attempt ${k + 1} of ${task.attempts.length}: ${known(a.end_s) ? a.verdict : 'running'}`);
	if (a.evidence) lines.push(a.evidence);
	lines.push(`${moment(bar.from)} – ${known(a.end_s) ? moment(bar.to) : 'still running'} (${duration(bar.to - bar.from)})`);
	lines.push(`GPU ${a.gpus.map(g => run.gpus[g].number).join(', ')}, ${a.mode}` + (task.user ? `, ${task.user}` : ''));
	lines.push(`peak ${memory(a.peak_mib)}, estimate ${memory(task.estimate.claim_mib)}`);
	lines.push(`SMACT ${percent(a.mean_smact)}, ${energy(a.energy_j)}`);
	return { title: `${task.name || 'task'} (${task.id})`, lines };
}

function gpuTitle(gpu) {
	return `GPU ${gpu.number}` + (gpu.name ? ` · ${gpu.name.replace(/^NVIDIA /, '')}` : '');
}

function drawBar(svg, bar, x, y, height, number) {
	const left = x(bar.from), width = Math.max(x(bar.to) - left, 1);
	const small = width < 4 || height < 7;
	draw('rect', { class: `bar ${bar.kind}${small ? ' small' : ''}`, x: left.toFixed(2), y, width: width.toFixed(2), height,
		'data-bar': number }, svg);
	if (bar.kind === 'oom') {
		const s = height < 11 ? 2.5 : 4, cx = left + width, cy = y + height / 2;
		draw('path', { class: 'mark', d: `M${cx - s} ${cy - s}L${cx + s} ${cy + s}M${cx - s} ${cy + s}L${cx + s} ${cy - s}` }, svg);
	}
	const text = height >= 11 && bar.kind !== 'oom' && bar.kind !== 'failed' ? fit(bar.task.name || bar.task.id, width - 6) : '';
	if (text)
		draw('text', { class: `in ${bar.kind}`, x: left + 3, y: y + height - 3.5 },
			svg, text);
}

function gantt(parent, run, width) {
	const gpus = lanesOf(run).slice(0, limits.gpus), deepest = Math.max(1, ...gpus.map(g => g.lanes));
	const lane = deepest <= 5 ? 16 : deepest <= 10 ? 12 : 7;
	const x = s => 1 + (s - span.from) / (span.to - span.from) * (width - 8);
	const height = gpus.reduce((sum, g) => sum + 20 + Math.max(1, g.lanes) * lane, 18) + 18;
	const svg = canvas(parent, width, height, `Tasks on GPUs over time: ${run.name}`), bars = [];
	svg.classList.add('gantt');
	const bands = draw('g', {}, svg), axis = timeAxis(svg, x, 16, height - 18, height > 500), on = draw('g', {}, svg);
	let y = 16;
	gpus.forEach((gpu, i) => {
		const rows = Math.max(1, gpu.lanes) * lane;
		draw('rect', { class: 'band', x: 0, y: y + 16, width, height: rows + 2 }, bands);
		draw('text', { x: 1, y: y + 12, style: 'font-weight: 600' }, on, fit(gpuTitle(run.gpus[i]), width));
		for (const bar of gpu.bars) drawBar(on, bar, x, y + 17 + bar.lane * lane, lane - 1, bars.push(bar) - 1);
		y += 20 + rows;
	});
	axis.after(on);
	pointed(svg, event => {
		const bar = bars[event.target.dataset && event.target.dataset.bar];
		return bar && about(run, bar);
	});
	return bars;
}

function drawGantts(parent, width) {
	const section = make('section', { id: 'gantt' }, parent), used = new Set();
	make('h2', {}, section, 'Tasks on GPUs');
	const key = make('div', {}, section);
	for (const run of runs) {
		if (runs.length > 1) make('h3', {}, section, run.name);
		const hidden = run.gpus.length - limits.gpus;
		if (hidden > 0) make('p', { class: 'note' }, section, `The first ${limits.gpus} of ${run.gpus.length} GPUs are drawn.`);
		if (run.tasks_left_out) make('p', { class: 'note' }, section, `The last ${run.tasks.length} tasks are drawn.`);
		if (run.tasks.length) for (const bar of gantt(section, run, width)) used.add(bar.kind);
		else make('p', { class: 'note' }, section, 'Nothing ran.');
	}
	legend(key, KINDS.filter(k => used.has(k[0])).map(k => [k[1], box('bar ' + k[0])]));
}

/* GPUs over time ---------------------------------------------------------------------------------------------------- */

const METRICS = [
	{ key: 'mem_mib', title: 'Memory in use per GPU', cap: true,
		unit: v => v ? (v / GIB).toFixed(v < 10 * GIB ? 1 : 0) + ' GiB' : '0' },
	{ key: 'smact', title: 'SM activity (SMACT) per GPU', unit: percent, top: 1 },
	{ key: 'gract', title: 'Busy time (GRACT) per GPU', unit: percent, top: 1 },
	{ key: 'smocc', title: 'SM occupancy (SMOCC) per GPU', unit: percent, top: 1 },
	{ key: 'dram', title: 'Memory bandwidth in use per GPU', unit: percent, top: 1 },
	{ key: 'tensor', title: 'Tensor cores active per GPU', unit: percent, top: 1 },
	{ key: 'fp16', title: 'FP16 pipes active per GPU', unit: percent, top: 1 },
	{ key: 'fp32', title: 'FP32 pipes active per GPU', unit: percent, top: 1 },
	{ key: 'fp64', title: 'FP64 pipes active per GPU', unit: percent, top: 1 },
	{ key: 'pcie_rx_mib_s', title: 'PCIe traffic to each GPU, MiB/s', unit: figure },
	{ key: 'pcie_tx_mib_s', title: 'PCIe traffic from each GPU, MiB/s', unit: figure },
	{ key: 'nvlink_rx_mib_s', title: 'NVLink traffic to each GPU, MiB/s', unit: figure },
	{ key: 'nvlink_tx_mib_s', title: 'NVLink traffic from each GPU, MiB/s', unit: figure },
	{ key: 'power_w', title: 'Power per GPU', unit: v => Math.round(v) + ' W' },
	{ key: 'sm_mhz', title: 'Clock of the SMs per GPU, MHz', unit: count },
];

const OF_PROCESSES = [
	{ key: 'cpu_cores', title: 'Processors in use per process', unit: figure },
	{ key: 'rss_mib', title: 'Memory of the machine per process (RSS)', unit: memory },
	{ key: 'read_mib_s', title: 'Read from disks per process, MiB/s', unit: figure },
	{ key: 'write_mib_s', title: 'Written to disks per process, MiB/s', unit: figure },
	{ key: 'net_rx_mib_s', title: 'Network traffic to the machine, MiB/s', unit: figure },
	{ key: 'net_tx_mib_s', title: 'Network traffic from the machine, MiB/s', unit: figure },
];

/* A list of which nothing is known may be missing. */
function valuesOf(s, key) { return s[key] || []; }
function hasValues(key) { return runs.some(run => run.series.some(s => valuesOf(s, key).some(known))); }

function path(s, key, x, y, closed) {
	let d = '', pen = false, start = 0, last = 0;
	const end = () => { if (pen && closed) d += `L${last} ${y(0)}L${start} ${y(0)}Z`; pen = false; };
	valuesOf(s, key).forEach((v, i) => {
		const from = Math.min(Math.max(s.from_s + i * s.step_s, span.from), span.to);
		const to = Math.min(s.from_s + (i + 1) * s.step_s, span.to);
		if (!known(v) || to <= from) { end(); return; }
		const x1 = x(from).toFixed(1), x2 = x(to).toFixed(1), at = y(v).toFixed(1);
		d += pen ? `V${at}H${x2}` : `M${x1} ${at}H${x2}`;
		if (!pen) start = x1;
		last = x2;
		pen = true;
	});
	end();
	return d;
}

/* `of` is what the series are of: "gpu" or "process". */
function valueAt(run, of, number, key, s) {
	const one = run.series.find(x => x[of] === number);
	return one ? valuesOf(one, key)[Math.floor((s - one.from_s) / one.step_s)] : null;
}

function titleOf(of, number) {
	const run = runs.find(r => (of === 'gpu' ? r.gpus : r.processes || [])[number]);
	return of === 'gpu' ? gpuTitle(run.gpus[number]) : run.processes[number];
}

function panel(parent, metric, of, number, top, width) {
	const height = 136, left = 46, right = 8, bottom = height - 18;
	const x = s => left + (s - span.from) / (span.to - span.from) * (width - left - right);
	const y = v => bottom - Math.min(v / top, 1.02) * (bottom - 20);
	const title = titleOf(of, number), shown = metric.cap ? runs.find(run => run.gpus[number]).gpus[number] : {};
	const svg = canvas(parent, width, height, `${metric.title}: ${title}`);
	draw('text', { x: 0, y: 11, style: 'font-weight: 600' }, svg, fit(title, width));
	timeAxis(svg, x, 20, bottom);
	for (const part of [0, 0.5, 1]) {
		draw('line', { class: 'rule', x1: left, x2: width - right, y1: y(part * top), y2: y(part * top) }, svg);
		draw('text', { class: 'dim', x: left - 5, y: y(part * top) + 4, 'text-anchor': 'end' }, svg, metric.unit(part * top));
	}
	if (metric.cap && shown.mem_total_mib)
		draw('line', { class: 'limit', x1: left, x2: width - right, y1: y(shown.mem_total_mib), y2: y(shown.mem_total_mib) }, svg);
	runs.forEach((run, i) => {
		const s = run.series.find(one => one[of] === number);
		if (!s) return;
		if (runs.length === 1)
			draw('path', { class: 'under', style: 'fill: var(--r2)', d: path(s, metric.key, x, y, true) }, svg);
		draw('path', { class: 'trace', d: path(s, metric.key, x, y, false), ...runStyle(i) }, svg);
	});
	const cursor = draw('line', { class: 'cursor', y1: 20, y2: bottom, visibility: 'hidden' }, svg);
	pointed(svg, event => {
		const rect = svg.getBoundingClientRect(), px = (event.clientX - rect.left) * width / rect.width;
		const s = span.from + (px - left) / (width - left - right) * (span.to - span.from);
		const inside = s >= span.from && s <= span.to;
		cursor.setAttribute('visibility', inside ? 'visible' : 'hidden');
		cursor.setAttribute('x1', px);
		cursor.setAttribute('x2', px);
		return inside && { title: moment(s), lines: runs.map(run => {
			const v = valueAt(run, of, number, metric.key, s);
			return (runs.length > 1 ? run.name + ': ' : '') + (known(v) ? metric.unit(v) : '–');
		}) };
	});
	svg.addEventListener('pointerleave', () => cursor.setAttribute('visibility', 'hidden'));
}

function drawSeries(parent, width, metrics, of) {
	const numbers = [...new Set(runs.flatMap(run => run.series.map(s => s[of]).filter(known)))].sort((a, b) => a - b);
	for (const metric of metrics) {
		if (!hasValues(metric.key)) continue;
		const section = make('section', { class: 'series' }, parent);
		make('h2', {}, section, metric.title);
		runLegend(section);
		let most = 0;
		for (const run of runs)
			for (const s of run.series)
				for (const v of valuesOf(s, metric.key)) if (known(v) && v > most) most = v;
		if (metric.cap) for (const run of runs) for (const g of run.gpus) most = Math.max(most, g.mem_total_mib || 0);
		const top = metric.top || (metric.cap ? most : roundUp(most));
		inGrid(section, width, numbers, (cell, number, w) => panel(cell, metric, of, number, top, w));
	}
}

/* As many columns as there is room for. */
function inGrid(parent, width, items, each) {
	const columns = Math.max(1, Math.min(items.length, Math.floor((width + 22) / (270 + 22))));
	const grid = make('div', { class: 'grid', style: `grid-template-columns: repeat(${columns}, minmax(0, 1fr))` }, parent);
	for (const item of items) each(make('div', {}, grid), item, Math.floor((width - (columns - 1) * 22) / columns));
}

/* Bars -------------------------------------------------------------------------------------------------------------- */

/* rows: {label, parts: [{value, kind}], text}; `bound`: a mark. */
function bars(parent, title, rows, width, bound) {
	const line = 34, height = rows.length * line + 22, most = Math.max(1e-9, ...rows.map(r => sum(r.parts)));
	const x = v => v / most * (width - 84);
	const svg = canvas(parent, width, height, `${title}: ` + rows.map(r => `${r.label} ${r.text}`).join('; '));
	draw('text', { x: 0, y: 11, style: 'font-weight: 600' }, svg, fit(title, width));
	rows.forEach((row, i) => {
		const y = 18 + i * line;
		let at = 0;
		draw('text', { class: 'dim', x: 0, y: y + 11 }, svg, fit(row.label, width));
		for (const part of row.parts) {
			if (known(part.value) && part.value > 0)
				draw('rect', { class: part.kind, x: x(at), y: y + 15, width: Math.max(x(part.value), 1), height: 13 }, svg);
			at += known(part.value) ? part.value : 0;
		}
		if (known(row.bound))
			draw('line', { class: 'bound', x1: x(row.bound), x2: x(row.bound), y1: y + 12, y2: y + 31 }, svg);
		draw('text', { x: x(at) + 6, y: y + 26 }, svg, row.text);
	});
}

function sum(parts) { return parts.reduce((total, p) => total + (known(p.value) ? p.value : 0), 0); }

const COMPARED = [['trace_total_s', 'Total time', duration], ['avg_jct_s', 'Mean waiting and execution', duration],
	['p95_jct_s', '95 % completed within', duration], ['oom', 'Attempts out of memory', count],
	['energy_j', 'Energy', energy], ['mean_smact', 'Mean SMACT', percent]];

function drawComparison(parent, width) {
	if (runs.length < 2) return;
	const section = make('section', { id: 'compared' }, parent);
	make('h2', {}, section, 'Side by side');
	const marks = [['waiting', box('wait')], ['execution', box('solid')]];
	if (runs.some(run => known(run.totals.lower_bound_s)))
		marks.push(['no placement can be quicker', svg => draw('path', { class: 'bound', d: 'M12 0V12' }, svg)]);
	legend(section, marks);
	const shown = COMPARED.filter(c => runs.some(run => known(run.totals[c[0]])));
	inGrid(section, width, shown, (cell, [key, title, format], w) => bars(cell, title, runs.map(run => {
		const t = run.totals;
		const parts = key === 'avg_jct_s' ? [{ value: t.avg_wait_s, kind: 'wait' }, { value: t.avg_exec_s, kind: 'solid' }]
			: [{ value: t[key], kind: 'solid' }];
		return { label: run.name, parts, text: format(t[key]), bound: key === 'trace_total_s' ? t.lower_bound_s : null };
	}), w));
}

/* From the table, which has all tasks, as it came: columns that say nothing leave it. */
const users = [...document.querySelectorAll('#users tbody tr')].map(row => {
	const [run, user] = [row.cells[0].textContent, row.cells[1].textContent];
	const [wait, exec] = [4, 5].map(i => Number(row.cells[i].dataset.v));
	return { label: runs.length > 1 ? `${user}, ${run}` : user, text: duration(wait + exec),
		parts: [{ value: wait, kind: 'wait' }, { value: exec, kind: 'solid' }] };
});

function drawUsers(width) {
	const chart = document.querySelector('#users .chart');
	if (!chart) return;
	chart.replaceChildren();
	if (users.length < 2 || users.length > 60) return;
	legend(chart, [['waiting', box('wait')], ['execution', box('solid')]]);
	bars(make('div', {}, chart), 'Mean waiting and execution', users, Math.min(width, 760));
}

/* Estimates --------------------------------------------------------------------------------------------------------- */

/* Completed attempts; those that ran out of memory show no peak worth the name. */
function estimated(run) {
	const list = [];
	for (const task of run.tasks)
		for (const a of task.attempts)
			if (known(task.estimate.claim_mib) && task.estimate.claim_mib > 0 && known(a.peak_mib) && a.verdict === 'ok')
				list.push({ task, peak: a.peak_mib, claim: task.estimate.claim_mib });
	return list;
}

function scatter(parent, run, points, width) {
	const size = Math.min(width, 380), left = 46, bottom = size - 34;
	const top = roundUp(Math.max(...points.map(p => Math.max(p.peak, p.claim))) / GIB) * GIB;
	const x = v => left + v / top * (size - left - 14), y = v => bottom - v / top * (bottom - 8);
	const svg = canvas(parent, size, size, `Estimated against measured memory: ${run.name}`);
	for (const part of [0, 0.25, 0.5, 0.75, 1]) {
		const v = part * top, text = String(+(v / GIB).toFixed(1));
		draw('line', { class: 'rule', x1: left, x2: size - 14, y1: y(v), y2: y(v) }, svg);
		draw('line', { class: 'rule', x1: x(v), x2: x(v), y1: 8, y2: bottom }, svg);
		draw('text', { class: 'dim', x: left - 5, y: y(v) + 4, 'text-anchor': 'end' }, svg, text);
		draw('text', { class: 'dim', x: x(v), y: bottom + 14, 'text-anchor': 'middle' }, svg, text);
	}
	draw('line', { class: 'limit', x1: x(0), y1: y(0), x2: x(top), y2: y(top) }, svg);
	draw('text', { class: 'dim', x: (left + size) / 2, y: size - 4, 'text-anchor': 'middle' }, svg, 'measured peak, GiB');
	draw('text', { class: 'dim', transform: `translate(10 ${size / 2 - 14}) rotate(-90)`, 'text-anchor': 'middle' }, svg,
		'estimate, GiB');
	points.forEach((p, i) => {
		const cx = x(p.peak).toFixed(1), cy = y(p.claim).toFixed(1);
		if (p.claim >= p.peak) draw('circle', { class: 'point', cx, cy, r: 3.2, 'data-point': i }, svg);
		else draw('path', { class: 'point low', d: `M${cx} ${cy - 4}l4 7h-8z`, 'data-point': i }, svg);
	});
	pointed(svg, event => {
		const p = points[event.target.dataset && event.target.dataset.point];
		return p && { title: `${p.task.name || 'task'} (${p.task.id})`,
			lines: [`estimate ${memory(p.claim)}` + (p.task.estimate.estimator ? ` (${p.task.estimate.estimator})` : ''),
				`measured ${memory(p.peak)}`] };
	});
}

function drawEstimates(parent, width) {
	const shown = runs.map(run => ({ run, points: estimated(run) })).filter(s => s.points.length);
	if (!shown.length) return;
	const section = make('section', { id: 'estimates' }, parent);
	make('h2', {}, section, 'Estimated against measured memory');
	legend(section, [['enough', svg => draw('circle', { class: 'point', cx: 12, cy: 6, r: 4 }, svg)],
		['less than it took', svg => draw('path', { class: 'point low', d: 'M12 1l5 9h-10z' }, svg)],
		['equal', svg => draw('path', { class: 'limit', d: 'M0 6H24' }, svg)]]);
	inGrid(section, width, shown, (cell, { run, points }, w) => {
		const low = points.filter(p => p.claim < p.peak).length;
		if (runs.length > 1) make('h3', {}, cell, run.name);
		make('p', { class: 'note' }, cell, `${points.length} completed tasks, ${low} estimated below what they took`);
		scatter(cell, run, points, w);
	});
}

/* Tables ------------------------------------------------------------------------------------------------------------ */

function sortBy(table, column, th) {
	const down = th.getAttribute('aria-sort') === 'ascending', body = table.tBodies[0];
	const key = row => {
		const cell = row.cells[column];
		return cell.classList.contains('n') ? ('v' in cell.dataset ? Number(cell.dataset.v) : -Infinity) : cell.textContent;
	};
	const keyed = [...body.rows].map(row => [key(row), row]);
	const words = new Intl.Collator(undefined, { numeric: true });
	keyed.sort(([a], [b]) => (down ? -1 : 1) * (typeof a === 'number' ? (a > b) - (a < b) : words.compare(a, b)));
	for (const other of table.querySelectorAll('th')) other.removeAttribute('aria-sort');
	th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
	body.replaceChildren(...keyed.map(pair => pair[1]));
}

function enliven(table) {
	for (const th of table.tHead.rows[0].cells) {
		const button = make('button', { type: 'button' }, null, th.textContent);
		th.replaceChildren(button);
		button.addEventListener('click', () => sortBy(table, th.cellIndex, th));
	}
	const tools = table.closest('details').querySelector('.tools'), find = tools && tools.querySelector('input');
	if (!tools) return;
	tools.hidden = false;
	find.addEventListener('input', () => {
		const word = find.value.trim().toLowerCase();
		for (const row of table.tBodies[0].rows) row.hidden = word !== '' && !row.textContent.toLowerCase().includes(word);
	});
}

/* A column that says nothing is left out: the run's name where there is one run, users of a simulation. */
function dropEmpty(table) {
	const rows = [...table.rows];
	for (let i = rows[0].cells.length - 1; i >= 0; i--) {
		const single = rows[0].cells[i].textContent === 'Run' && runs.length === 1 && table.closest('section').id !== 'summary';
		if (single || rows.every((row, k) => !k || ['', '–'].includes(row.cells[i].textContent)))
			for (const row of rows) row.deleteCell(i);
	}
}

/* The page ---------------------------------------------------------------------------------------------------------- */

const pictures = document.getElementById('pictures');
let drawn = 0;

function drawAll() {
	const width = Math.floor(pictures.getBoundingClientRect().width);
	if (width === drawn || width < 50) return;
	drawn = width;
	hideTip();
	pictures.replaceChildren();
	drawComparison(pictures, width);
	drawGantts(pictures, width);
	drawSeries(pictures, width, METRICS, 'gpu');
	drawSeries(pictures, width, OF_PROCESSES, 'process');
	drawEstimates(pictures, width);
	drawUsers(width);
}

/* In a table without the year, which is in its title. */
for (const time of document.querySelectorAll('time')) {
	const whole = dayAndClock(new Date(time.textContent));
	time.title = whole;
	time.textContent = time.closest('td') ? whole.slice(5) : whole;
}
addPatterns();
drawAll();
for (const table of document.querySelectorAll('table')) dropEmpty(table);
for (const table of document.querySelectorAll('table.sort')) enliven(table);
new ResizeObserver(() => requestAnimationFrame(drawAll)).observe(pictures);
})();
