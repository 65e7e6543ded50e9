// The flame graph, on a canvas as large as what can be seen of it.

const ROW = 19, FONT = "12px system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";

// A tree on the screen: which part of it fills the width. `turned` grows upwards.
class Layer {
	constructor(boxes, turned, first_row) {
		Object.assign(this, { boxes, turned, first_row, zoom: 0, from: 0, to: boxes.total[0] || 1 });
		const { size } = boxes;
		this.first = new Int32Array(size).fill(-1);
		this.samples = Float64Array.from(boxes.n);
		for (let i = size - 1; i > 0; i--) {
			this.first[boxes.up[i]] = i;
			this.samples[boxes.up[i]] += this.samples[i];
		}
	}
	row(depth) {
		return this.first_row + (this.turned ? -depth : depth);
	}
	depth(row) {
		return this.turned ? this.first_row - row : row - this.first_row;
	}
	// Whether the zoomed box stands on it.
	is_above_zoom(i) {
		const { boxes, zoom } = this;
		return boxes.depth[i] < boxes.depth[zoom] && boxes.x[i] <= boxes.x[zoom] && boxes.x[i] + boxes.total[i] >= boxes.x[zoom] + boxes.total[zoom];
	}
	zoom_to(i) {
		this.zoom = i;
		this.from = this.boxes.x[i];
		this.to = this.from + this.boxes.total[i];
	}
	// The first box of a depth that ends after `x`.
	find(depth, x) {
		const { boxes } = this;
		let low = boxes.from[depth], high = boxes.from[depth + 1];
		while (low < high) {
			const middle = (low + high) >> 1;
			if (boxes.x[middle] + boxes.total[middle] > x) high = middle;
			else low = middle + 1;
		}
		return low;
	}
	// The heaviest box on another, of those that can be seen.
	heaviest(i) {
		const { x, total, up } = this.boxes;
		let best = -1;
		for (let k = this.first[i]; k > 0 && up[k] === i; k++) {
			if (x[k] < this.to && x[k] + total[k] > this.from && !(total[k] <= total[best])) best = k;
		}
		return best;
	}
	ancestors(i) {
		const path = [i];
		while (path[path.length - 1] > 0) path.push(this.boxes.up[path[path.length - 1]]);
		return path;
	}
}

class Graph {
	constructor(canvas, pane, tall, events) {
		const context = canvas.getContext("2d");
		context.font = FONT;
		Object.assign(this, { canvas, pane, tall, events, context, palette: new Palette(), fitter: new Fitter(context), layers: [], full: false });
		this.listen();
	}
	name(layer, i) {
		const text = layer.boxes.text[i];
		const label = layer.boxes.at[i] >> 2;
		return text !== undefined ? text : this.full ? full_name(label) : short_name(label);
	}
	show(layers) {
		this.layers = layers;
		this.rows = Math.max(1, ...layers.map((layer) => Math.max(layer.row(0), layer.row(layer.boxes.depths - 1)) + 1));
		this.selected = this.hovered = null;
		this.tall.style.height = this.rows * ROW + "px";
	}
	// Brings the rows of the zoomed box, or the root, to where they can be seen.
	settle() {
		const layer = this.layers[this.layers.length - 1];
		if (!layer) return;
		const row = layer.row(layer.boxes.depth[layer.zoom]);
		const room = this.pane.clientHeight;
		this.pane.scrollTop = this.layers.length > 1 ? row * ROW - room / 2 : layer.turned ? (row + 4) * ROW - room : (row - 3) * ROW;
	}
	resize() {
		const width = this.pane.clientWidth, height = this.pane.clientHeight, ratio = window.devicePixelRatio || 1;
		if (width === this.width && height === this.height && ratio === this.ratio) return;
		Object.assign(this, { width, height, ratio });
		this.canvas.width = Math.max(1, Math.round(width * ratio));
		this.canvas.height = Math.max(1, Math.round(height * ratio));
		this.canvas.style.width = width + "px";
		this.canvas.style.height = height + "px";
	}
	// Pixels between the pane's top and the first row: a flame that is lower than its pane stands on its foot.
	offset() {
		const room = this.height - this.rows * ROW;
		return room > 0 && this.layers.length === 1 && this.layers[0].turned ? room : 0;
	}
	draw() {
		if (this.layers.length === 0) return;
		this.resize();
		const { context, ratio } = this;
		const style = getComputedStyle(root_element);
		this.ink = style.getPropertyValue("--ink");
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.globalAlpha = 1;
		context.fillStyle = style.getPropertyValue("--paper");
		context.fillRect(0, 0, this.width, this.height);
		context.font = FONT;
		context.textBaseline = "middle";
		this.drawn = 0;
		for (const layer of this.layers) this.draw_layer(layer);
		if (this.hovered) this.frame(this.hovered, 1);
		if (this.selected) this.frame(this.selected, 2);
	}
	draw_layer(layer) {
		const top = this.pane.scrollTop, offset = this.offset();
		const low = Math.floor((top - offset) / ROW), high = Math.ceil((top - offset + this.height) / ROW);
		const [a, b] = [layer.depth(low), layer.depth(high)];
		const is_part = this.layers.length > 1 && layer.turned ? 1 : 0;
		for (let depth = Math.max(is_part, Math.min(a, b)); depth <= Math.min(layer.boxes.depths - 1, Math.max(a, b)); depth++) {
			this.draw_row(layer, depth, layer.row(depth) * ROW - top + offset);
		}
	}
	draw_row(layer, depth, y) {
		const { boxes } = layer, { context } = this;
		const scale = this.width / (layer.to - layer.from);
		const hit = this.found && this.found.get(layer);
		// Boxes too narrow to see are one grey stroke, or of the colour of what was found.
		let run = -1, run_end = 0, is_hit = false;
		const flush = () => {
			if (run >= 0 && run_end - run > 0.3) {
				context.globalAlpha = is_hit ? 1 : 0.55;
				context.fillStyle = is_hit ? MATCH : "#9a9a9a";
				context.fillRect(run, y, Math.max(0.7, run_end - run), ROW - 1);
			}
			run = -1;
			is_hit = false;
		};
		for (let i = layer.find(depth, layer.from); i < boxes.from[depth + 1] && boxes.x[i] < layer.to; i++) {
			const left = (boxes.x[i] - layer.from) * scale, right = left + boxes.total[i] * scale;
			if (right - left < 1.2) {
				if (run < 0 || left - run_end > 0.6) { flush(); run = left; }
				run_end = right;
				is_hit = is_hit || (hit && hit.hit[i] > 0);
				continue;
			}
			flush();
			this.draw_box(layer, i, Math.max(0, left), Math.min(this.width, right), y, hit);
		}
		flush();
	}
	draw_box(layer, i, left, right, y, hit) {
		const { context } = this, width = right - left;
		const is_hit = hit && hit.hit[i];
		const color = is_hit ? { fill: MATCH, ink: "#fff" } : this.palette.of(layer.boxes.at[i]);
		const is_faint = layer.is_above_zoom(i);
		this.drawn++;
		context.globalAlpha = is_faint ? 0.45 : hit && !is_hit ? 0.4 : 1;
		context.fillStyle = color.fill;
		context.fillRect(left, y, width > 3 ? width - 1 : width * 0.8, ROW - 1);
		if (width < 18) return;
		const text = this.fitter.fit(this.name(layer, i), width - 8);
		if (!text) return;
		context.globalAlpha = is_faint ? 0.85 : 1;
		context.fillStyle = is_faint || (hit && !is_hit) ? this.ink : color.ink;
		context.fillText(text, left + 4, y + ROW / 2);
	}
	frame({ layer, i }, thick) {
		const { context } = this;
		const scale = this.width / (layer.to - layer.from);
		const left = Math.max(0, (layer.boxes.x[i] - layer.from) * scale);
		const right = Math.min(this.width, (layer.boxes.x[i] + layer.boxes.total[i] - layer.from) * scale);
		if (right <= left) return;
		context.globalAlpha = 1;
		context.strokeStyle = this.ink;
		context.lineWidth = thick;
		const y = layer.row(layer.boxes.depth[i]) * ROW - this.pane.scrollTop + this.offset();
		context.strokeRect(left + thick / 2, y + thick / 2, Math.max(1, right - left - 1 - thick), ROW - 1 - thick);
	}
	redraw() {
		if (this.is_waiting) return;
		this.is_waiting = true;
		requestAnimationFrame(() => { this.is_waiting = false; this.draw(); });
	}
	// The box at a place of the canvas.
	at(x, y) {
		const row = Math.floor((y + this.pane.scrollTop - this.offset()) / ROW);
		for (const layer of [...this.layers].reverse()) {
			const depth = layer.depth(row);
			if (depth < 0 || depth >= layer.boxes.depths) continue;
			const place = layer.from + (x / this.width) * (layer.to - layer.from);
			const i = layer.find(depth, place);
			if (i < layer.boxes.from[depth + 1] && layer.boxes.x[i] <= place) return { layer, i };
		}
		return null;
	}
	listen() {
		const { canvas, pane, events } = this;
		const spot = (event) => this.at(event.offsetX, event.offsetY);
		on(canvas, "pointermove", (event) => {
			const box = spot(event);
			if (box && this.hovered && box.i === this.hovered.i && box.layer === this.hovered.layer) return;
			this.hovered = box;
			events.hover(box);
			this.redraw();
		});
		on(canvas, "pointerleave", () => { this.hovered = null; events.hover(null); this.redraw(); });
		on(canvas, "click", (event) => {
			const box = spot(event);
			if (box) events.click(box);
		});
		on(canvas, "wheel", (event) => {
			if (!event.ctrlKey && !event.shiftKey && !event.deltaX) return;
			event.preventDefault();
			const { layer } = spot(event) || { layer: this.layers[0] }, span = layer.to - layer.from;
			if (!event.ctrlKey) return this.pan(layer, layer.from + ((event.deltaX || event.deltaY) / this.width) * span);
			const place = layer.from + (event.offsetX / this.width) * span;
			const whole = layer.boxes.total[0], next = Math.min(whole, Math.max(whole * 1e-7, span * Math.exp(event.deltaY * 0.002)));
			layer.to = layer.from + next;
			this.pan(layer, place - ((place - layer.from) * next) / span);
		}, { passive: false });
		on(pane, "scroll", () => this.redraw());
		new ResizeObserver(() => { if (pane.clientHeight > 0) this.draw(); }).observe(pane);
	}
	pan(layer, from) {
		const span = layer.to - layer.from, whole = layer.boxes.total[0];
		layer.from = Math.max(0, Math.min(whole - span, from));
		layer.to = layer.from + span;
		this.redraw();
	}
}
