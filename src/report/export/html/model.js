"use strict";
// The document inside the page, and trees that are made of it. Nothing here touches the screen.

// The document, and what can be worked out of it once.
const data = JSON.parse(document.getElementById("data").textContent), { labels } = data;

const INLINED = 1, WAITING = 2;

const root_element = document.documentElement;
const on = (target, type, act, options) => target.addEventListener(type, act, options);

const short_name = (label) => labels.name[label];
const full_name = (label) => labels.full[label] || labels.name[label];
const path_of = (label) => labels.modules[labels.module[label]];
const key_of = (at) => data.kinds[labels.kind[at >> 2]];
const sum_of = (places, numbers) => places.reduce((sum, place) => sum + numbers[place], 0);

function prepare() {
	for (const event of data.events) {
		const { up, at, own, n } = event.tree;
		const size = up.length;
		const tree = { size, up: Int32Array.from(up), at, own, n, total: Float64Array.from(own), start: new Int32Array(size + 1) };
		for (let i = 1; i < size; i++) tree.up[i] += tree.up[i - 1];
		// Rows come in the order of their depths: what stands on one box is one run of rows.
		for (let i = size - 1; i > 0; i--) tree.total[tree.up[i]] += tree.total[i];
		for (let i = 1; i < size; i++) tree.start[tree.up[i] + 1]++;
		tree.start[0] = 1;
		for (let i = 1; i <= size; i++) tree.start[i] += tree.start[i - 1];
		event.tree = tree;
		event.places = new Map(event.rows.label.map((label, i) => [label, event.rows.places[event.rows.place[i]]]));
	}
}

// The class of a thread: its name, `worker-#`, and its title if the thread has another name.
const class_of = (label) => labels.classes[label] || { name: short_name(label) };

// The classes of an event's threads and the names of each, the heaviest first.
function thread_choices({ tree }) {
	const classes = new Map();
	for (let i = tree.start[0]; i < tree.start[1]; i++) {
		const label = tree.at[i] >> 2, name = short_name(label), key = class_of(label).name, total = tree.total[i];
		const entry = classes.get(key) || { ...class_of(label), total: 0, names: [] };
		entry.total += total;
		entry.names.push({ name, total });
		classes.set(key, entry);
	}
	const order = (a, b) => b.total - a.total || (a.name < b.name ? -1 : 1);
	for (const entry of classes.values()) entry.names.sort(order);
	return [...classes.values()].sort(order);
}

// The rows of an event's tree that are threads of the choice: `each`, `class`, `merged`, or `=NAME` and `~CLASS` of some.
function threads_of(event, choice) {
	const { tree } = event, found = [];
	for (let i = tree.start[0]; i < tree.start[1]; i++) {
		const label = tree.at[i] >> 2;
		if (choice[0] === "=" ? short_name(label) !== choice.slice(1) : choice[0] === "~" && class_of(label).name !== choice.slice(1)) continue;
		found.push(i);
	}
	return found;
}

// Most boxes with callers at the root, and the least share of one: there are many more of them than of the others.
const MOST_CALLER_BOXES = 150000, LEAST_CALLER_SHARE = 2e-5;

// Grows a tree from groups of places in the document's tree; `next` gives the groups that stand on one. Boxes are in the order
// of their depths, what stands on one next to each other and in order.
function grow(root, next, order, most) {
	const boxes = { at: [], up: [], depth: [], x: [], total: [], own: [], n: [], text: [], from: [] };
	const by_name = (a, b) => (a.sort < b.sort ? -1 : a.sort > b.sort ? 1 : a.at - b.at);
	const sort = order === "name" ? by_name : (a, b) => b.total - a.total || by_name(a, b);
	const is_rest = (group) => key_of(group.at) === "rest";
	let level = [Object.assign(root, { up: 0, x: 0 })];
	for (let depth = 0; level.length > 0; depth++) {
		const above = [];
		boxes.from.push(boxes.at.length);
		for (const group of level) {
			group.depth = depth;
			group.box = boxes.at.length;
			for (const column in boxes) if (column !== "from") boxes[column].push(group[column]);
		}
		for (const group of boxes.at.length < most ? level : []) {
			const standing = next(group).filter((child) => child.total > 0);
			for (const child of standing) child.sort = child.text === undefined ? short_name(child.at >> 2) : child.text;
			// What is left out comes last.
			standing.sort((a, b) => is_rest(a) - is_rest(b) || sort(a, b));
			let { x } = group;
			for (const child of standing) {
				above.push(Object.assign(child, { up: group.box, x }));
				x += child.total;
			}
			group.places = group.weights = null;
		}
		level = above;
	}
	boxes.size = boxes.at.length;
	boxes.depths = boxes.from.length;
	boxes.from.push(boxes.size);
	return boxes;
}

// What stands on the places of a group, by what it is.
function callees(tree) {
	return (group) => {
		const found = new Map();
		for (const place of group.places) {
			for (let i = tree.start[place]; i < tree.start[place + 1]; i++) {
				const key = tree.at[i] & ~WAITING;
				let child = found.get(key);
				if (!child) found.set(key, (child = { at: tree.at[i], places: [], total: 0, own: 0, n: 0 }));
				child.at &= tree.at[i] | ~WAITING;
				child.places.push(i);
				child.total += tree.total[i];
				child.own += tree.own[i];
				child.n += tree.n[i];
			}
		}
		return [...found.values()];
	};
}

// Callers at the root: each place of a group has gone down towards its root, with the weight that it carries.
function callers(tree, whole, choice) {
	const least = whole * LEAST_CALLER_SHARE;
	const rest = labels.kind.indexOf(data.kinds.indexOf("rest")) << 2;
	return (group) => {
		const found = new Map();
		for (let k = 0; k < group.places.length; k++) {
			const place = group.places[k];
			if (place === 0) continue;
			const is_thread = tree.up[place] === 0;
			if (is_thread && choice === "merged") continue;
			const text = is_thread && choice === "class" ? class_of(tree.at[place] >> 2).title : undefined;
			const key = text === undefined ? tree.at[place] & ~WAITING : text;
			let child = found.get(key);
			if (!child) found.set(key, (child = { at: tree.at[place], text, places: [], weights: [], total: 0, own: 0, n: 0 }));
			child.at &= tree.at[place] | ~WAITING;
			child.places.push(tree.up[place]);
			child.weights.push(group.weights[k]);
			child.total += group.weights[k];
		}
		let left = null;
		const kept = [];
		for (const child of found.values()) {
			if (child.total >= least) kept.push(child);
			else {
				left = left || { at: rest, places: [], weights: [], total: 0, own: 0, n: 0 };
				left.total += child.total;
			}
		}
		return left ? [...kept, left] : kept;
	};
}

// The tree of a view, of which the direction is `calls`, `callers`, or what is `below` or `above` its label.
function tree_of(event, view) {
	const { tree } = event;
	const threads = threads_of(event, view.threads);
	const whole = sum_of(threads, tree.total) + tree.own[0];
	const root = { at: tree.at[0], text: "all", total: whole, own: 0, n: 0 };
	const most = 4 * tree.size + MOST_CALLER_BOXES;
	if (view.direction === "calls") {
		const step = callees(tree);
		root.places = threads;
		root.own = tree.own[0];
		const first = (group) => {
			if (group !== root || view.threads === "merged") return step(group);
			const classes = new Map();
			for (const place of threads) {
				const label = tree.at[place] >> 2;
				const { name: key, title: text } = view.threads === "class" ? class_of(label) : { name: short_name(label) };
				const child = classes.get(key) || { at: tree.at[place], text, places: [] };
				child.at &= tree.at[place] | ~WAITING;
				child.places.push(place);
				classes.set(key, child);
			}
			for (const child of classes.values()) {
				for (const sum of ["total", "own", "n"]) child[sum] = sum_of(child.places, tree[sum]);
			}
			return [...classes.values()];
		};
		return grow(root, first, view.order, most);
	}
	const places = [], weights = [];
	const inside = inside_of(tree, threads);
	if (view.direction === "callers") {
		for (let i = 0; i < tree.size; i++) {
			if (inside[i] && tree.own[i] > 0) { places.push(i); weights.push(tree.own[i]); }
		}
		Object.assign(root, { places, weights });
		return grow(root, callers(tree, whole, view.threads), view.order, MOST_CALLER_BOXES);
	}
	// Of a function that calls itself, the outermost call counts.
	const seen = new Uint8Array(tree.size);
	let total = 0, n = 0;
	for (let i = 1; i < tree.size; i++) {
		const is_it = tree.at[i] >> 2 === view.label;
		seen[i] = seen[tree.up[i]] | is_it;
		if (!inside[i] || !is_it || seen[tree.up[i]]) continue;
		places.push(i);
		weights.push(tree.total[i]);
		total += tree.total[i];
		n += tree.n[i];
	}
	const of = { at: view.label << 2, places, weights, total, own: 0, n };
	if (view.direction === "below") {
		of.own = sum_of(places, tree.own);
		return grow(of, callees(tree), view.order, most);
	}
	of.places = places.map((place) => tree.up[place]);
	return grow(of, callers(tree, total, view.threads), view.order, MOST_CALLER_BOXES);
}

// Which rows of a tree are of some threads.
function inside_of(tree, threads) {
	const inside = new Uint8Array(tree.size);
	for (const place of threads) inside[place] = 1;
	for (let i = tree.start[1]; i < tree.size; i++) inside[i] = inside[tree.up[i]];
	return inside;
}

// The rows of a table: of the document for all threads, else counted.
function rows_of(event, choice) {
	const rows = event.rows;
	if (choice[0] !== "=" && choice[0] !== "~") {
		return rows.label.map((label, i) => ({
			label, own: rows.own[i], total: rows.total[i], n: rows.n[i], error: rows.error[i], place: event.places.get(label),
		}));
	}
	return counted_rows(event, threads_of(event, choice));
}

// The same for some threads, by going through their stacks: a function that calls itself counts once for each.
function counted_rows(event, threads) {
	const { tree } = event;
	const size = labels.name.length;
	const own = new Float64Array(size), total = new Float64Array(size), n = new Float64Array(size);
	const on_stack = new Int32Array(size);
	let whole = 0, samples = 0;
	for (const thread of threads) {
		whole += tree.total[thread];
		const pending = [];
		for (let i = tree.start[thread]; i < tree.start[thread + 1]; i++) pending.push(i);
		while (pending.length > 0) {
			const i = pending.pop();
			if (i < 0) { on_stack[tree.at[~i] >> 2]--; continue; }
			const label = tree.at[i] >> 2;
			if (on_stack[label]++ === 0) total[label] += tree.total[i];
			own[label] += tree.own[i];
			n[label] += tree.n[i];
			samples += tree.n[i];
			pending.push(~i);
			for (let k = tree.start[i]; k < tree.start[i + 1]; k++) pending.push(k);
		}
	}
	const rows = [];
	for (let label = 0; label < size; label++) {
		if (total[label] <= 0 || key_of(label << 2) === "rest") continue;
		const share = own[label] / whole;
		const error = event.is_sampled && samples > 0 ? 196 * Math.sqrt(share * (1 - share) / samples) : null;
		rows.push({ label, own: own[label], total: total[label], n: n[label], error, place: event.places.get(label) || "" });
	}
	return rows.sort((a, b) => b.own - a.own || b.total - a.total || a.label - b.label);
}

// A number that stands for a box's path, the same in every tree that has the path.
function path_keys(boxes) {
	const keys = new Int32Array(boxes.size);
	const of_label = new Map();
	const hash = (text, start) => {
		let sum = start;
		for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
		return sum;
	};
	for (let i = 0; i < boxes.size; i++) {
		const label = boxes.at[i] >> 2;
		const text = boxes.text[i];
		if (!of_label.has(label)) of_label.set(label, hash(path_of(label), hash(full_name(label), 0x811c9dc5 | 0)));
		const own = text === undefined ? of_label.get(label) : hash(text, 7);
		keys[i] = i === 0 ? own : Math.imul(keys[boxes.up[i]] ^ own, 0x01000193) + (boxes.at[i] & INLINED);
	}
	return keys;
}

// What a search finds: which labels, which boxes, and the weight of the stacks that have one, inside a range.
function matches(boxes, regex) {
	const of_label = new Map(), test = (label) => {
		if (!of_label.has(label)) of_label.set(label, regex.test(short_name(label)) || regex.test(full_name(label)));
		return of_label.get(label);
	};
	const hit = new Uint8Array(boxes.size), below = new Uint8Array(boxes.size);
	const outermost = [];
	for (let i = 0; i < boxes.size; i++) {
		const label = boxes.at[i] >> 2, text = boxes.text[i];
		hit[i] = i > 0 && (text === undefined ? test(label) : regex.test(text)) ? 1 : 0;
		below[i] = i > 0 ? below[boxes.up[i]] | hit[i] : hit[i];
		if (hit[i] && !below[boxes.up[i]]) outermost.push(i);
	}
	return {
		hit, test,
		count: hit.reduce((sum, one) => sum + one, 0),
		weight: (from, to) => outermost.reduce((sum, i) => sum + Math.max(0, Math.min(to, boxes.x[i] + boxes.total[i]) - Math.max(from, boxes.x[i])), 0),
	};
}
