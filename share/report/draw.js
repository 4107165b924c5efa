/* SPDX-License-Identifier: MIT */
/* What both pages draw with, reports and the live one: it stands before the script of each. Text goes into text nodes only. */
'use strict';

function draw(name, attributes, parent, text) {
	const e = document.createElementNS('http://www.w3.org/2000/svg', name);
	for (const key in attributes) e.setAttribute(key, attributes[key]);
	if (text !== undefined) e.textContent = text;
	if (parent) parent.append(e);
	return e;
}

/* Patterns, so that what differs in colour differs in grey too. Through style: the live page's policy forbids the attribute. */
function addPatterns() {
	const svg = draw('svg', { id: 'patterns', 'aria-hidden': 'true' }, document.body), defs = draw('defs', {}, svg);
	const slash = ['M-1 7L7 -1M-1 1L1 -1M5 7L7 5', '--bad', 1.6];
	const pattern = (id, size, marks) => {
		const p = draw('pattern', { id, width: size, height: size, patternUnits: 'userSpaceOnUse' }, defs);
		draw('rect', { width: size, height: size }, p).style.fill = 'var(--page)';
		for (const [d, colour, width] of marks) {
			const path = draw('path', { d }, p);
			path.style.stroke = `var(${colour})`;
			path.style.strokeWidth = width;
		}
	};
	pattern('hatch', 6, [slash]);
	pattern('cross', 6, [slash, ['M-1 -1L7 7', '--bad', 1.6]]);
	pattern('wait', 5, [['M0 0V5', '--dark-bar', 2.4]]);
}

/* Numbers ----------------------------------------------------------------------------------------------------------- */

const GIB = 1024;
const known = v => typeof v === 'number' && isFinite(v);
const two = n => String(n).padStart(2, '0');
const percent = f => known(f) ? Math.round(f * 100) + ' %' : '–';
const memory = mib => !known(mib) ? '–' : mib < GIB ? Math.round(mib) + ' MiB' : (mib / GIB).toFixed(1) + ' GiB';

/* Whole seconds, a minute at least. */
function minutes(s) {
	if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
	if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
	return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
}

/* Bars of attempts -------------------------------------------------------------------------------------------------- */

/* The k-th of a task, which has ended. Who made place at the end of his time slot did what he was asked to. */
function kindOfEnd(verdict, k) {
	if (verdict === 'oom' || verdict === 'cancelled') return verdict;
	return ['ok', 'slot', 'none', ''].includes(verdict) ? (k ? 'again' : 'ok') : 'failed';
}

/* Each bar (from, to) into the first lane that is free when it begins. Returns how many lanes there are. */
function intoLanes(bars, slack) {
	const ends = [];
	bars.sort((x, y) => x.from - y.from);
	for (const bar of bars) {
		bar.lane = ends.findIndex(end => end <= bar.from + slack);
		if (bar.lane < 0) bar.lane = ends.length;
		ends[bar.lane] = bar.to;
	}
	return ends.length;
}
