/* SPDX-License-Identifier: MIT */
/* The live page. Text from radd goes into text nodes only, never into markup. */
(function () {
'use strict';
const SPARK = 180;
const state = { gpus: null, queue: null, found: null, word: '', spark: new Map(), heard: 0, told: 0, task: null, history: null };
const byId = id => document.getElementById(id);

/* Elements ---------------------------------------------------------------------------------------------------------- */

function make(name, attributes, ...children) {
	const e = document.createElement(name);
	for (const key in attributes) if (attributes[key] !== null) e.setAttribute(key, attributes[key]);
	e.append(...children.filter(c => c !== null && c !== undefined).map(c => typeof c === 'object' ? c : String(c)));
	return e;
}

/* Makes one node like another. Through style, since the page's policy forbids the attribute. */
function become(old, now) {
	if (old.nodeName !== now.nodeName) { old.replaceWith(now); return; }
	if (old.nodeType !== Node.ELEMENT_NODE) {
		if (old.data !== now.data) old.data = now.data;
		return;
	}
	for (const { name } of [...old.attributes]) if (!now.hasAttribute(name)) old.removeAttribute(name);
	for (const { name, value } of now.attributes) {
		if (old.getAttribute(name) === value) continue;
		if (name === 'style') old.style.cssText = value; else old.setAttribute(name, value);
	}
	fill(old, [...now.childNodes]);
}

function fill(place, nodes) {
	const had = [...place.childNodes];
	nodes.forEach((node, i) => { if (had[i]) become(had[i], node); else place.append(node); });
	had.slice(nodes.length).forEach(node => node.remove());
}

/* In the place of what stands there, which is touched only where it differs: what somebody has marked to copy it, points at or has
   reached by keyboard stays. If another task's link is now in that place, the keyboard goes along with the task. */
function replace(place, ...nodes) {
	const at = document.activeElement, href = place.contains(at) ? at.getAttribute('href') : null;
	fill(place, nodes);
	if (!href || (at.isConnected && at.getAttribute('href') === href)) return;
	const again = [...place.querySelectorAll('a')].find(a => a.getAttribute('href') === href);
	if (again) again.focus({ preventScroll: true });
}

/* A reader of the screen says what was written, even if it is the same as before. */
function say(id, text) {
	if (byId(id).textContent !== text) byId(id).textContent = text;
}

/* Numbers ----------------------------------------------------------------------------------------------------------- */

function duration(s) {
	if (!known(s)) return '–';
	s = Math.max(0, Math.round(s));
	return s < 60 ? s + ' s' : minutes(s);
}

const local = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
	second: '2-digit', hourCycle: 'h23' });
const moment = iso => iso ? local.format(new Date(iso)) : '–';
const nearby = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const faraway = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
	hourCycle: 'h23' });
/* To the minute, and with the day where that is another one. */
const roughly = iso => (Math.abs(since(iso)) < 43200 ? nearby : faraway).format(new Date(iso));
const about = iso => -since(iso) < 60 ? 'within minutes' : 'about ' + roughly(iso);
/* A sentence of radd's, moments in it as they are on this clock. */
const sentence = text => text.replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, moment);
const since = iso => iso ? (Date.now() - Date.parse(iso)) / 1000 : NaN;
const energy = j => known(j) ? (j / 3600).toFixed(1) + ' Wh' : '–';

const gpusNow = () => (state.gpus && state.gpus.gpus) || [];

/* Of an instance first what tells it from its siblings, as rad gpus does. */
const model = g => (g.name || '').replace(/^NVIDIA /, '').replace(/^(.*) MIG (.*)$/, '$2 $1');

/* Of one that is gone, another may have the number. */
function gpuNumber(g) {
	const lost = g.stale && gpusNow().some(x => !x.stale && x.number === g.number);
	return lost ? g.uuid.slice(0, 12) : g.number;
}

/* Of one in the history, which keeps no number of an instance: what it is called now, if it is still there. */
function numberThen(gpu) {
	const g = gpusNow().find(x => x.uuid === gpu.uuid);
	return g ? gpuNumber(g) : gpu.index;
}

function gpuName(uuid) {
	const g = gpusNow().find(x => x.uuid === uuid);
	if (!g) return String(uuid).slice(0, 12);
	return gpuNumber(g) + (g.mig ? ` (${model(g).split(' ')[0]})` : '');
}

/* Runs of a sweep differ at their names' ends: a long one loses its middle where there is no room for it, as in rad queue. */
function nameOf(name) {
	const letters = Array.from(name), tail = letters.length > 28 ? 14 : 0, head = letters.length - tail;
	return make('span', { class: 'name', title: name }, make('span', {}, letters.slice(0, head).join('')),
		tail ? make('span', {}, letters.slice(head).join('')) : '');
}

/* `tabindex`: -1 where the same task is in a table, too: there it is reached by keyboard. */
function taskLink(id, text = id, tabindex = null) { return make('a', { href: '#task=' + encodeURIComponent(id), tabindex }, text); }

/* What is asked -----------------------------------------------------------------------------------------------------
   The token came behind the # of the address, which browsers send to nobody; it is kept for this tab alone. */

const token = (function () {
	const given = /(?:^#|&)token=([0-9a-f]+)/.exec(location.hash);
	if (given) {
		sessionStorage.setItem('token', given[1]);
		history.replaceState(null, '', location.pathname + '#' + location.hash.slice(1).replace(/&?token=[0-9a-f]+&?/, ''));
	}
	return sessionStorage.getItem('token');
})();

function ask(path, signal) {
	return fetch(path, { headers: token ? { Authorization: 'Bearer ' + token } : {}, signal, cache: 'no-store' });
}

async function askJson(path) {
	const reply = await ask(path), body = await reply.json();
	if (!reply.ok) throw new Error(body.error || reply.statusText);
	return body;
}

/* The stream of events. fetch, not EventSource, which cannot carry a token but in the address. */
async function listen() {
	for (let wait = 1000; ; wait = Math.min(wait * 1.6, 15000)) {
		try {
			const reply = await ask('/api/events');
			if (reply.status === 401) { away((await reply.json()).error); setLive(false, 'no token'); return; }
			if (!reply.ok) throw new Error((await reply.json()).error);
			wait = 1000;
			await readEvents(reply.body.pipeThrough(new TextDecoderStream()).getReader());
			throw new Error('rad web ended');
		} catch (e) {
			setLive(false, 'not connected');
			away(`No connection (${e.message}); trying again. What is shown is from ${state.heard ? moment(state.heard) : 'nowhere'}.`);
			document.body.querySelector('main').classList.add('old');
			await new Promise(done => setTimeout(done, wait));
		}
	}
}

async function readEvents(reader) {
	let rest = '';
	for (;;) {
		const { value, done } = await reader.read();
		if (done) return;
		const parts = (rest + value).split('\n\n');
		rest = parts.pop();
		for (const part of parts) {
			const name = /^event: (.*)$/m.exec(part), data = /^data: (.*)$/m.exec(part);
			heard();
			if (name && data) take(name[1], JSON.parse(data[1]));
		}
	}
}

function heard() {
	const gone = Boolean(state.gpus && !state.gpus.up);
	state.heard = Date.now();
	setLive(!gone, gone ? 'radd is away' : 'live');
	document.body.querySelector('main').classList.toggle('old', gone);
}

function setLive(on, text) {
	byId('live').className = on ? 'on' : '';
	say('live', text);
}

function away(text) {
	byId('away').hidden = !text;
	say('away', text || '');
}

function take(name, data) {
	if (name === 'gpus') {
		if (data.up) state.told = Date.now();
		away(data.up ? '' : `radd does not answer: ${data.why || 'nobody knows why'}. Tasks that run go on.` +
			(state.told ? ` What is shown is from ${moment(state.told)}.` : ''));
		if (!data.up && state.gpus) data.gpus = state.gpus.gpus;
		state.gpus = data;
		heard();
		remember(data);
		showSums();
	} else if (name === 'queue') {
		state.queue = data;
		if (state.word) find();
	}
	show();
	if (state.task) refreshTask();
}

/* GPUs -------------------------------------------------------------------------------------------------------------- */

function remember(data) {
	for (const g of data.up && data.gpus || []) {
		const list = state.spark.get(g.uuid) || [];
		list.push(known(g.smact_now) ? g.smact_now : known(g.gpu_util) ? g.gpu_util : null);
		if (list.length > SPARK) list.shift();
		state.spark.set(g.uuid, list);
	}
}

/* What was before the page was opened, from the accounts; a value every two seconds, as they come from now on. */
async function recall() {
	try {
		const past = await askJson('/api/history?hours=1');
		for (const s of past.series || []) {
			const uuid = past.gpus[s.gpu].uuid, list = state.spark.get(uuid) || [], before = [];
			const values = s.smact.some(known) ? s.smact : s.gract;
			for (let ms = past.now_ms - SPARK * 2000; ms < past.now_ms; ms += 2000)
				before.push(values[Math.floor((ms - Date.parse(s.from)) / 1000 / s.step_s)] ?? null);
			while (before.length && !known(before[before.length - 1])) before.pop();	/* not in the accounts yet */
			state.spark.set(uuid, before.concat(list).slice(-SPARK));
		}
		show();
	} catch (e) { /* the line begins now, then */ }
}

/* parts: [[class, from, to]] as fractions of 1. */
function meter(name, text, parts, mark, label) {
	const svg = draw('svg', { viewBox: '0 0 300 12', preserveAspectRatio: 'none', role: 'img',
		'aria-label': label || `${name}: ${text}` });
	const x = f => Math.max(0, Math.min(1, f)) * 298 + 1;
	draw('rect', { class: 'frame', x: 0.5, y: 0.5, width: 299, height: 11 }, svg);
	for (const [kind, from, to] of parts)
		if (to > from) draw('rect', { class: kind, x: x(from), y: 1, width: Math.max(1, x(to) - x(from)), height: 10 }, svg);
	if (known(mark)) draw('line', { class: 'mean', x1: x(mark), x2: x(mark), y1: 0, y2: 12 }, svg);
	return make('div', { class: 'meter' }, make('div', {}, make('span', {}, name), make('span', {}, text)), svg);
}

function spark(values) {
	const svg = draw('svg', { class: 'spark', viewBox: `0 0 ${SPARK - 1} 40`, preserveAspectRatio: 'none', role: 'img',
		'aria-label': 'SM activity in the last six minutes' });
	const first = SPARK - values.length;
	let line = '', area = '', open = -1;
	values.concat([null]).forEach((v, i) => {
		if (known(v)) {
			const at = `${first + i} ${(39 - v * 38).toFixed(1)}`;
			line += (open < 0 ? 'M' : 'L') + at;
			area += (open < 0 ? `M${first + i} 40L` : 'L') + at;
			if (open < 0) open = i;
		} else if (open >= 0) {
			area += `L${first + i - 1} 40Z`;
			open = -1;
		}
	});
	draw('path', { class: 'rule', d: `M0 39.5H${SPARK}` }, svg);
	draw('path', { class: 'area', d: area }, svg);
	draw('path', { class: 'trace', d: line }, svg).style.stroke = 'var(--r0)';
	return svg;
}

/* Above so much of other programs a GPU is not idle: as for rad gpus. */
const isForeign = g => known(g.mem_foreign_mib) ? g.mem_foreign_mib > GIB : (g.foreign || []).length > 0;
const isIdle = g => !g.stale && !g.drained && !(g.tasks || []).length && !isForeign(g);

function tagsOf(g) {
	if (g.stale) return make('span', { class: 'tag warn' }, 'not read');
	if (g.drained) return make('span', { class: 'tag warn' }, 'drained');
	if (g.share === 'idle' && isForeign(g)) return make('span', { class: 'tag warn' }, 'foreign');
	return make('span', { class: 'tag' }, isIdle(g) && g.share !== 'idle' ? `${g.share}, idle` : g.share);
}

function memoryMeter(g) {
	const total = g.mem_total_mib, used = g.mem_used_mib || 0, foreign = Math.min(g.mem_foreign_mib || 0, used);
	const held = Math.max(g.mem_held_mib || 0, used - foreign);
	const gib = v => known(v) ? (v / GIB).toFixed(1) : '–';
	const text = `${gib(g.mem_used_mib)} of ${gib(total)} GiB, ${gib(g.mem_available_mib)} free`;
	return meter('Memory', text, known(total) ? [['foreign', 0, foreign / total], ['used', foreign / total, used / total],
		['held', used / total, Math.min(1, (foreign + held) / total)]] : [], NaN,
			`Memory: ${text}, ${gib(g.mem_held_mib)} GiB held for tasks`);
}

function loadMeter(g) {
	if (known(g.smact_now))
		return meter('SM activity', `${percent(g.smact_now)} now, ${percent(g.smact)} ${g.smact_source === 'expected' ? 'expected' : 'mean'}`,
			[['used', 0, g.smact_now]], g.smact);
	if (known(g.gpu_util)) return meter('Utilization', percent(g.gpu_util), [['used', 0, g.gpu_util]]);
	return meter('SM activity', 'not known', []);
}

/* Of one that does not answer, the last readings are none: memory would look free that nobody can have. */
function asKnown(g) {
	return g.stale ? { ...g, mem_used_mib: null, mem_available_mib: null, smact_now: null, gpu_util: null, power_w: null } : g;
}

function card(g, rows) {
	const list = make('ul', {}), row = id => rows.get(id) || { name: '', user: '' };
	if (g.drained && g.drain)
		list.append(make('li', { class: 'said' }, `drained by ${g.drain.user} since ${roughly(g.drain.since_time)}` +
			(g.drain.until_time ? ` until ${roughly(g.drain.until_time)}` : '') +
			(g.drain.reason ? ': ' + g.drain.reason : '')));
	for (const id of g.tasks || [])
		list.append(make('li', { class: 'task' }, taskLink(id, id, -1), nameOf(row(id).name),
			make('small', {}, row(id).user)));
	for (const p of g.foreign || [])
		list.append(make('li', { class: 'foreign' }, `foreign: ${p.program || 'pid ' + p.pid} of ${p.user}, ${memory(p.mem_mib)}`));
	for (const r of g.reservations || [])
		list.append(make('li', { class: 'said' }, `reserved for ${r.user}, ${roughly(r.begin_time)} to ${roughly(r.end_time)}`));
	const what = model(g) + (known(g.power_w) ? `, ${Math.round(g.power_w)} W` : '');
	return make('article', { class: 'card' },
		make('h3', {}, `GPU ${gpuNumber(g)}`, make('small', {}, what), tagsOf(g)), memoryMeter(g), loadMeter(g),
		spark(state.spark.get(g.uuid) || []), list);
}

function showSums() {
	const data = state.gpus, list = data.gpus;
	byId('host').textContent = data.host;
	const t = data.tasks || {}, parts = [list && `${list.length} GPU${list.length === 1 ? '' : 's'}, ${list.filter(isIdle).length} idle`,
		known(t.RUNNING) && `${t.RUNNING} running`,
		known(t.PENDING) && `${t.PENDING} waiting`, t.HELD > 0 && `${t.HELD} held`, data.version && `radd ${data.version}`,
		data.troubles && data.troubles.length && `${data.troubles.length} to look after (rad doctor)`];
	say('sums', parts.filter(Boolean).join(' · '));
	document.title = (state.task ? `Task ${state.task}: ${state.said ? state.said + '; ' : ''}` : state.history ? 'History, ' : '') +
		(known(t.RUNNING) ? `${data.host}: ${t.RUNNING} run, ${t.PENDING} wait` : data.host);
}

function showGpus() {
	const rows = new Map(((state.queue && state.queue.rows) || []).map(r => [r.id, r]));
	byId('gpus').classList.toggle('many', gpusNow().length > 16);
	replace(byId('gpus'), ...gpusNow().map(g => card(asKnown(g), rows)));
}

/* The queue --------------------------------------------------------------------------------------------------------- */

const STATES = { RUNNING: 'runs', PENDING: 'waits', HELD: 'held', COMPLETED: 'completed', FAILED: 'failed',
	OUT_OF_MEMORY: 'out of memory',
	CANCELLED: 'cancelled', TIMEOUT: 'time limit', LOST: 'lost' };

function doneBar(done) {
	const bar = make('i', {});
	bar.style.width = done + '%';
	return make('span', { class: 'progress', 'aria-hidden': 'true' }, bar);
}

function doneCell(row) {
	return make('td', { class: 'n less' }, ...(known(row.percent) ? [row.percent + ' %', doneBar(row.percent)] : ['']));
}

/* What the columns say that are left out where the window is narrow. */
function brief(row, took) {
	const said = [known(row.percent) ? row.percent + ' %' : '', known(row.left_s) ? duration(row.left_s) + ' left' :
		(row.state === 'RUNNING' ? 'for ' : (STATES[row.state] || row.state) + ' ') + took];
	return make('small', { class: 'brief' }, said.filter(Boolean).join(', '), known(row.percent) ? doneBar(row.percent) : '');
}

function queueRow(row) {
	const running = row.state === 'RUNNING', many = row.n > 1 ? ` +${row.n - 1}` : '';
	const on = (row.gpus || []).map(gpuName).join(', ');
	const place = (on ? 'GPU ' + on : 'no GPU') + (row.reason ? ` (${row.reason})` : '');
	const where = running ? place : row.reason || '';
	const said = row.reason_text ? make('small', { class: 'less' }, ': ' + sentence(row.reason_text)) : '';
	const start = row.expected_start ? make('small', { class: 'start' }, `starts ${about(row.expected_start)}`) : null;
	const took = duration(since(running ? row.start_time : row.submit_time));
	return make('tr', {},
		make('td', { class: 'n' }, taskLink(row.id), many), make('td', {}, nameOf(row.name)),
		make('td', {}, row.user),
		make('td', { class: 'less state-' + row.state }, STATES[row.state] || row.state),
		make('td', { class: 'n less' }, took), doneCell(row),
		make('td', { class: 'n less' }, known(row.left_s) ? duration(row.left_s) : ''),
		make('td', { class: 'n less' }, row.gpus_requested),
		make('td', { class: 'n less' }, memory(running && known(row.peak_mib) ? row.peak_mib : row.claim_mib || NaN)),
		make('td', { class: running ? 'where' : 'where why' }, where, said, ' ', start || '', brief(row, took)));
}

function showQueue() {
	const data = state.word && state.found ? state.found : state.queue;
	byId('queue').hidden = byId('find').hidden = !data.rows.length && !state.word;
	replace(byId('queue').tBodies[0], ...data.rows.map(queueRow));
	const more = data.more > 0 ? `and ${data.more} more: ${state.word ? 'say more' : 'find them above, or with rad queue'}` :
		data.rows.length ? '' : state.word ? 'Nothing holds that.' : state.told ? 'Nothing runs, and nothing waits.' : 'Not known.';
	say('more', more);
	const users = (state.queue.users || []).filter(u => u.unfinished > 0 || u.used_s > 0);
	byId('turns').hidden = users.length < 2;
	const titles = [...byId('users').tHead.rows[0].cells].map(c => c.textContent);
	replace(byId('users').tBodies[0], ...label(users.slice(0, 100).map(u => make('tr', {},
		make('td', { class: 'n' }, u.turn || ''), make('td', {}, u.user), make('td', { class: 'n' }, u.running),
		make('td', { class: 'n' }, u.unfinished), make('td', { class: 'n' }, known(u.gpus_now) ? +u.gpus_now.toFixed(2) : ''),
		make('td', { class: 'n' }, memory(u.mem_mib)), make('td', { class: 'n' }, duration(u.used_s)),
		make('td', {}, u.next ? taskLink(u.next) : ''))), titles));
}

async function find() {
	const word = byId('find').value.trim();
	state.word = word;
	try {
		const found = word ? await askJson('/api/find?q=' + encodeURIComponent(word)) : null;
		if (word === state.word) state.found = found;
	} catch (e) { state.found = null; }
	if (state.queue) showQueue();
}

/* One task ---------------------------------------------------------------------------------------------------------- */

function pairs(list) {
	const dl = make('dl', {});
	for (const [name, value] of list)
		if (value !== null && value !== undefined && value !== '' && value !== '–')
			dl.append(make('dt', {}, name), make('dd', {}, value));
	return dl;
}

/* Where the window is narrow, a row is a list of its cells, and each says what it is (web.css). */
function label(rows, titles) {
	for (const row of rows)
		[...row.cells].forEach((cell, i) => { cell.dataset.label = titles[i]; });
	return rows;
}

function table(head, rows, numbers = []) {
	const kind = i => numbers.includes(head[i]) ? { class: 'n' } : {};
	const cell = (c, i) => c instanceof Element && c.tagName === 'TD' ? c : make('td', kind(i), c);
	return make('div', { class: 'wide stack' }, make('table', {},
		make('thead', {}, make('tr', {}, ...head.map((h, i) => make('th', kind(i), h)))),
		make('tbody', {}, ...label(rows.map(row => make('tr', {}, ...row.map(cell))), head))));
}

function whySection(why) {
	const section = make('section', {}, make('h2', {}, 'Why it is where it is'));
	if (why.reason_text) section.append(make('p', {}, make('b', {}, why.reason), ': ' + sentence(why.reason_text)));
	const t = why.turn;
	if (t) section.append(make('p', {}, `The turn is ${t.user}'s (task ${t.task}): ${t.because}.`));
	if ((why.gpus || []).length)
		section.append(table(['Fits', 'Why'], why.gpus.map(g => [
			make('td', { class: g.fits ? 'fits' : 'not' }, g.fits ? '✓ yes' : '✗ ' + g.reason),
			make('td', { class: 'long' }, sentence(g.text))])));
	return why.reason_text || t || (why.gpus || []).length ? section : null;
}

function attemptRow(a, i) {
	const ran = a.end ? (Date.parse(a.end) - Date.parse(a.start)) / 1000 : since(a.start);
	return [i + 1, moment(a.start), duration(ran), (a.gpus || []).map(gpuName).join(', '), a.share, memory(a.peak_mib),
		percent(a.mean_smact), energy(a.energy_j), make('td', { class: 'long' },
			make('span', { class: 'verdict' }, a.end ? a.verdict : 'runs'), a.evidence ? ': ' + a.evidence : '')];
}

function attemptsSection(task) {
	if (!(task.attempts || []).length) return null;
	const head = ['No.', 'From', 'For', 'GPUs', 'Sharing', 'Peak', 'SM activity', 'Energy', 'Verdict'];
	return make('section', {}, make('h2', {}, 'Attempts'), table(head, task.attempts.map(attemptRow)));
}

function eventRow(e) { return [moment(e.time), e.event, make('td', { class: 'long' }, e.text || '')]; }

/* What was measured counts from the attempt's start, and comes every minute: of those in a row the last says it all. */
function eventsSection(events) {
	if (!events.length) return null;
	const told = events.filter((e, i) => e.event !== 'measured' || (events[i + 1] || {}).event !== 'measured');
	return make('section', {}, make('h2', {}, 'Events'), table(['When', 'What', 'Details'], told.reverse().map(eventRow)));
}

function logSection(log) {
	const section = make('section', {}, make('h2', {}, 'The end of its log'));
	for (const said of [log.error, log.note]) if (said) section.append(make('p', { class: 'note' }, said));
	if (log.text) section.append(make('pre', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'The end of its log' }, log.text));
	else if (log.text === '') section.append(make('p', { class: 'note' }, 'Nothing was printed yet.'));
	return section;
}

/* Who feeds whom. Figures are there where the page is run by the task's own user. */
function feedText(f) {
	if (!f) return '';
	if (!f.role) return f.name + (f.tasks ? ': ' + f.tasks.join(', ') : '');
	const runs = f.role === 'producer' ? 'this task runs the loader' :
		f.producer ? `task ${f.producer} runs the loader` : 'its loader is run outside of RAD-RM';
	const waits = f.waits_for === 'producer' ? '; waits for the loader' : f.waits_for ? `; the loader waits for ${f.waits_for}` : '';
	const of = (f.readers || []).filter(Boolean);
	return `${f.name}: ${runs}${of.length ? ' for ' + of.join(', ') : ''}; ${f.batches_s.toFixed(1)} batches/s, waited ` +
		`${Math.round(100 * f.wait_fraction)} % of the time${waits}` + (f.others || []).map(o => '. ' + feedText(o)).join('');
}

/* What is looked for first: how it is, and how far. */
function glance(t, p) {
	const failed = t.state === 'FAILED', bad = failed || ['OUT_OF_MEMORY', 'TIMEOUT', 'LOST'].includes(t.state);
	const said = [STATES[t.state] || t.state, failed && known(t.exit_code) ? `exit code ${t.exit_code}` : '',
		failed && known(t.signal) ? `signal ${t.signal}` : '', t.state === 'PENDING' ? t.reason : '',
		known(p.percent) ? `${p.percent} %` : '', known(p.left_s) ? `${duration(p.left_s)} left` : ''].filter(Boolean).join(', ');
	state.said = said;
	return make('p', { class: bad ? 'glance bad' : 'glance' }, said, known(p.percent) ? doneBar(p.percent) : '');
}

function showTask(answer) {
	const t = answer.task, p = t.state === 'RUNNING' && t.progress || {}, e = t.estimate || {};
	const row = t.state === 'PENDING' && ((state.queue || {}).rows || []).find(r => r.id === t.id);
	replace(byId('task'), ...[
		make('h2', {}, `Task ${t.id}: ${t.name}`), glance(t, p),
		pairs([['User', t.user], ['Submitted', moment(t.submit_time)],
			['Starts', row && row.expected_start ? `${about(row.expected_start)}, as far as can be told (rad queue --start)` : ''],
			['Started', moment(t.start_time)], ['Ended', moment(t.end_time)], ['Waited', duration(t.wait_s)],
			['Ran', duration(t.run_s)],
			['Lost', t.lost_s ? duration(t.lost_s) : ''], ['GPUs', t.gpus_requested],
			['Estimate', e.estimator && e.estimator !== 'none' ? `${memory(e.claim_mib)} on each GPU (${e.estimator})` :
				t.gpus_requested ? 'none: watched instead' : ''],
			['Slowdown', known(t.slowdown) ? `${t.slowdown} × (${t.slowdown_source === 'law' ? 'predicted' : t.slowdown_source})` : ''], ['Priority', t.priority || ''],
			['Shares with', (t.shared_with || []).join(', ')],
			['Feed', feedText(t.feed)], ['Command', make('code', {}, t.command || '')],
			['Folder', make('code', {}, t.cwd || '')], ['Log', make('code', {}, t.log_path || '')]]),
		state.log ? logSection(state.log) : null, answer.why ? whySection(answer.why) : null, attemptsSection(t),
		eventsSection(answer.events || [])].filter(Boolean));
	if (state.gpus) showSums();
}

/* The end of its log stays in sight as it grows, unless somebody has scrolled up in it. */
function showTaskAnew(answer) {
	const pre = () => byId('task').querySelector('pre.log'), was = pre();
	const low = !was || was.scrollTop + was.clientHeight >= was.scrollHeight - 4;
	state.answer = answer;
	showTask(answer);
	if (low && pre()) pre().scrollTop = pre().scrollHeight;
}

/* As long as it runs and once afterwards; seldom where reading it takes long. */
let reading = false;
async function refreshLog(t) {
	const was = state.log || {}, from = Date.now();
	if (reading || !(t.attempts || []).length || (was.whole && t.end_time) || from < was.due) return;
	reading = true;
	let log;
	try { log = await askJson('/api/log?id=' + encodeURIComponent(t.id)); } catch (e) { log = { error: e.message }; }
	reading = false;
	if (state.task !== t.id) return;
	state.log = { ...log, whole: Boolean(t.end_time) && !log.error, due: Date.now() + Math.max(4000, 20 * (Date.now() - from)) };
	showTaskAnew(state.answer);
}

let asking = false;
async function refreshTask() {
	const id = state.task;
	if (asking || !id) return;
	asking = true;
	try {
		const answer = await askJson('/api/task?id=' + encodeURIComponent(id));
		if (state.task === id) {
			showTaskAnew(answer);
			refreshLog(answer.task);
		}
	} catch (e) {
		if (state.task === id && !byId('task').querySelector('dl'))
			replace(byId('task'), make('h2', {}, 'Task ' + id), make('p', { class: 'away' }, e.message));
	}
	asking = false;
}

/* History ----------------------------------------------------------------------------------------------------------- */

const SPANS = [[1, 'Hour'], [24, 'Day'], [168, 'Week']];
const KINDS = [['bar ok', 'completed'], ['bar again', 'tried again'], ['bar oom', 'out of memory'], ['bar failed', 'failed'],
	['bar cancelled', 'cancelled'], ['bar running', 'runs'], ['', 'the line below: SM activity, 0 to 100 %']];
const PARTS = [['used', 'used'], ['held', 'held for tasks, not used yet'], ['foreign', 'programs that are not tasks'],
	['', 'the upright mark: mean; the curve: SM activity in the last 6 minutes']];

function lanes(tasks, uuid) {
	const bars = [];
	for (const t of tasks)
		(t.attempts || []).forEach((a, k) => {
			if (a.start && (a.gpus || []).includes(uuid))
				bars.push({ t, a, kind: a.end ? kindOfEnd(a.verdict, k) : 'running', from: Date.parse(a.start),
					to: a.end ? Date.parse(a.end) : Date.now() });
		});
	return { bars, n: Math.max(1, intoLanes(bars, 0)) };
}

function axis(svg, x, from, to, top, bottom, width) {
	const steps = [300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800].map(s => s * 1000);
	const step = steps.find(s => (to - from) / s <= Math.max(2, width / 84)) || steps[steps.length - 1];
	const zone = new Date().getTimezoneOffset() * 60000;
	for (let at = Math.ceil((from - zone) / step) * step + zone; at < to; at += step) {
		const d = new Date(at), text = step >= 86400000 || (d.getHours() === 0 && d.getMinutes() === 0) ?
			d.toLocaleDateString(undefined, { day: 'numeric', month: 'short' }) : `${two(d.getHours())}:${two(d.getMinutes())}`;
		draw('line', { class: 'rule', x1: x(at), x2: x(at), y1: top, y2: bottom }, svg);
		const anchor = x(at) < 24 ? 'start' : x(at) > width - 24 ? 'end' : 'middle';
		draw('text', { class: 'dim', x: x(at), y: bottom + 13, 'text-anchor': anchor }, svg, text);
	}
}

function drawBar(svg, bar, x, y, height) {
	const { t, a, kind } = bar, left = x(bar.from), width = Math.max(1.5, x(bar.to) - left), room = Math.floor(width / 6.2);
	const link = draw('a', { href: '#task=' + t.id, tabindex: -1 }, svg), text = t.name || t.id;	/* by keyboard: in the table */
	const rect = draw('rect', { class: `bar ${kind}`, x: left, y, width, height, 'data-bar': '' }, link);
	draw('title', {}, rect, `${t.id} ${t.name}, ${t.user}: ${a.end ? a.verdict : 'runs'}, ` +
		`${duration((bar.to - bar.from) / 1000)}, peak ${memory(a.peak_mib)}`);
	if (room > 3)
		draw('text', { class: `in ${kind}`, x: left + 3, y: y + 10 }, link,
			text.length > room ? text.slice(0, room - 1) + '…' : text);
}

/* What ran on one GPU, and its SM activity below. */
function timeline(data, gpu, place, width) {
	const to = data.now_ms, from = to - data.hours * 3600000, line = 13, graph = 46;
	const { bars, n } = lanes(data.tasks.concat(running(data)), gpu.uuid), shown = Math.min(n, 24);
	const bottom = 18 + shown * line + graph + 6, x = ms => (Math.max(from, Math.min(to, ms)) - from) / (to - from) * width;
	const svg = draw('svg', { width, height: bottom + 18, viewBox: `0 0 ${width} ${bottom + 18}`, role: 'img',
		'aria-label': `GPU ${numberThen(gpu)}: ${bars.length} runs` });
	const title = `GPU ${numberThen(gpu)}, ${model(gpu)}` + (n > shown ? ` (${n - shown} lanes are not drawn)` : '');
	draw('text', { x: 0, y: 12 }, svg, title).style.fontWeight = 600;
	axis(svg, x, from, to, 18, bottom, width);
	for (const bar of bars) {
		if (bar.lane >= shown || bar.to <= from) continue;
		drawBar(svg, bar, x, 18 + bar.lane * line, line - 1);
	}
	const s = (data.series || []).find(one => one.gpu === place);
	if (s) drawLoad(svg, s, x, from, to, bottom, graph);
	return make('div', {}, svg);
}

function drawLoad(svg, s, x, from, to, bottom, height) {
	const start = Date.parse(s.from), key = s.smact.some(known) ? 'smact' : 'gract';
	let d = '', pen = false;
	s[key].forEach((v, i) => {
		const a = start + i * s.step_s * 1000, b = a + s.step_s * 1000;
		if (!known(v) || b < from || a > to) { pen = false; return; }
		const at = (bottom - Math.min(1, v) * (height - 4)).toFixed(1);
		d += pen ? `V${at}H${x(b).toFixed(1)}` : `M${x(a).toFixed(1)} ${at}H${x(b).toFixed(1)}`;
		pen = true;
	});
	draw('line', { class: 'rule', x1: 0, x2: x(to), y1: bottom - height + 4, y2: bottom - height + 4 }, svg);
	draw('path', { class: 'trace', d }, svg).style.stroke = 'var(--r0)';
}

/* Tasks that run are not in the accounts yet. */
function running(data) {
	const there = new Set(data.tasks.map(t => t.id));
	return ((state.queue && state.queue.rows) || []).filter(r => r.state === 'RUNNING' && !there.has(r.id))
		.map(r => ({ ...r, attempts: [{ start: r.start_time, end: null, gpus: r.gpus, peak_mib: r.peak_mib }] }));
}

function legendOf(entries) {
	return make('p', { class: 'legend' }, ...entries.map(([kind, text]) => {
		if (!kind) return make('span', {}, text);
		const svg = draw('svg', { width: 24, height: 12, viewBox: '0 0 24 12', 'aria-hidden': 'true' });
		draw('rect', { class: kind, x: 1, y: 1, width: 22, height: 10 }, svg);
		return make('span', {}, svg, text);
	}));
}

function historyUsers(data) {
	const users = (data.users || []).filter(u => u.gpu_s > 0 || u.tasks > 0);
	if (!users.length) return null;
	const sum = key => users.reduce((n, u) => n + (u[key] || 0), 0), all = sum('gpu_s'), saved = all - sum('gpu_share_s');
	const row = u => [u.user, u.tasks, duration(u.gpu_s), duration(u.gpu_share_s), duration(u.wait_s), energy(u.energy_j)];
	return make('section', {}, make('h2', {}, 'Users'),
		saved >= all / 100 && all - saved >= 1 ? make('p', {}, `Tasks that ended were on GPUs for ${duration(all)}. As some shared theirs, ` +
			`that took ${duration(all - saved)} of the GPUs' time: ${percent(saved / all)} less. (Each alone is somewhat faster.)`) : null,
		table(['User', 'Tasks', 'GPU time', 'As shares', 'Waited', 'Energy'], users.map(row),
			['Tasks', 'GPU time', 'As shares', 'Waited', 'Energy']));
}

function historyTasks(data) {
	const section = make('section', {}, make('h2', {}, 'Ended'));
	const none = data.shorter ? 'Nothing of late; before that too many to draw them (rad acct, rad report).' : 'Nothing ended in this time.';
	const note = data.shorter ? 'The last ones: there are too many to draw them all (rad acct, rad report).' :
		data.left_out ? `The last ones; ${data.left_out} others are left out (rad acct, rad report).` : '';
	section.append(make('p', { class: 'note' }, data.tasks.length ? note : none));
	const row = t => [taskLink(t.id), t.name, t.user, STATES[t.state] || t.state, moment(t.end_time), memory(t.peak_mib),
		memory(t.claim_mib || NaN)];
	const head = ['ID', 'Name', 'User', 'State', 'Ended', 'Peak memory', 'Expected'];
	if (data.tasks.length) section.append(table(head, data.tasks.slice(0, 200).map(row), ['ID', 'Peak memory', 'Expected']));
	return section;
}

function showHistory() {
	const data = state.history, place = byId('history');
	const choose = make('p', { class: 'choose' }, ...SPANS.map(([h, text]) =>
		make('a', { href: '#history=' + h, 'aria-current': data.hours === h ? 'true' : null }, text)));
	if (!data.tasks) {
		place.replaceChildren(choose, make('p', { class: data.error ? 'away' : 'note' }, data.error || 'Asking …'));
		return;
	}
	const width = Math.max(240, Math.floor(place.getBoundingClientRect().width));
	replace(place, choose, make('h2', {}, 'What ran, and how busy it kept the GPUs'),
		legendOf(KINDS), ...(data.gpus || []).map((g, i) => timeline(data, g, i, width)),
		...[historyUsers(data), historyTasks(data)].filter(Boolean));
}

async function loadHistory(hours) {
	state.history = { hours };
	showHistory();
	try {
		const data = await askJson('/api/history?hours=' + hours);
		if (state.history && state.history.hours === hours) state.history = data;
	} catch (e) {
		if (state.history && state.history.hours === hours) state.history = { hours, error: e.message };
	}
	if (state.history) showHistory();
}

/* The page ---------------------------------------------------------------------------------------------------------- */

/* Once for all that came together, and not while nobody sees it: a frame comes when the window is seen. */
let frame = 0;
function show() {
	frame = frame || requestAnimationFrame(() => {
		frame = 0;
		if (byId('now').hidden) return;
		if (state.gpus) showGpus();
		if (state.queue) showQueue();
	});
}

function route() {
	const at = /^#(task|history)=([0-9_]+)/.exec(location.hash), page = at ? at[1] : 'now';
	for (const id of ['now', 'task', 'history']) byId(id).hidden = id !== page;
	for (const [id, name] of [['to-now', 'now'], ['to-history', 'history']])
		if (name === page) byId(id).setAttribute('aria-current', 'page'); else byId(id).removeAttribute('aria-current');
	state.task = page === 'task' ? at[2] : null;
	state.said = '';
	state.log = null;
	if (page !== 'history') state.history = null;
	if (state.task) {
		byId('task').replaceChildren(make('h2', {}, 'Task ' + state.task), make('p', { class: 'note' }, 'Asking …'));
		asking = reading = false;
		refreshTask();
	}
	if (page === 'history') loadHistory(Number(at[2]));
	show();
	if (state.gpus) showSums();
	scrollTo(0, 0);
}

let soon = 0;
byId('find').addEventListener('input', () => { clearTimeout(soon); soon = setTimeout(find, 200); });
/* The link that led here may be hidden now; the keyboard goes on from where the page begins. */
addEventListener('hashchange', () => {
	route();
	document.querySelector('main > div:not([hidden])').focus({ preventScroll: true });
});
addEventListener('resize', () => { if (!byId('history').hidden && state.history) showHistory(); });
addPatterns();
byId('gpus').before(legendOf(PARTS));
route();
listen();
recall();
})();
