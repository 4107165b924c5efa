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
