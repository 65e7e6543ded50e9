// Text and colours: numbers with their units, names that are cut between characters, and the colour of each kind of box.

function percent(part, whole) {
	if (!(whole > 0)) return "0.0%";
	const share = (100 * part) / whole;
	return share > 0 && share < 0.05 ? "<0.1%" : share.toFixed(1) + "%";
}

function number(n) {
	return Math.round(n).toLocaleString("en-US");
}

// A weight with its unit; with `whole`, in the unit that a column of that sum has.
function weight_text(event, value, whole) {
	const units = UNITS[event.unit];
	if (!units) return whole === undefined ? number(value) + " " + event.count_name : number(value);
	const scale = whole === undefined ? value : whole;
	const [size, unit, decimals] = units.find(([size]) => scale >= size) || units[units.length - 1];
	return fixed(value / size, whole === undefined && size > 1 ? digits(value / size) : decimals) + " " + unit;
}

const UNITS = {
	ns: [[1e9, "s", 2], [1e6, "ms", 1], [1e3, "us", 0], [1, "ns", 0]],
	bytes: [[1e12, "TB", 2], [1e9, "GB", 2], [1e6, "MB", 1], [1e3, "kB", 1], [1, "B", 0]],
};

const digits = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);

const fixed = (value, decimals) => value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

function counted(n, noun) {
	return number(n) + " " + (Math.round(n) === 1 ? noun.replace("s and ", " or ") : noun + (noun.endsWith("x") ? "es" : "s"));
}

const segments = window.Intl && Intl.Segmenter ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;

function graphemes(text) {
	if (/^[\x20-\x7e]*$/.test(text)) return text;
	return segments ? Array.from(segments.segment(text), (part) => part.segment) : Array.from(text);
}

// Names as boxes of a width show them: whole, or cut between characters and with an ellipsis.
class Fitter {
	constructor(context) {
		this.context = context;
		this.widths = new Map();
		this.cuts = new Map();
	}
	width(text) {
		let width = this.widths.get(text);
		if (width === undefined) this.widths.set(text, (width = this.context.measureText(text).width));
		return width;
	}
	fit(text, room) {
		const whole = this.width(text);
		if (whole <= room) return text;
		const key = Math.floor(room) + text;
		let cut = this.cuts.get(key);
		if (cut !== undefined) return cut;
		const all = graphemes(text);
		const start = (length) => (typeof all === "string" ? all.slice(0, length) : all.slice(0, length).join("")) + "…";
		let low = 0, high = Math.min(all.length - 1, Math.ceil((2 * all.length * room) / whole) + 1);
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (this.context.measureText(start(middle)).width <= room) low = middle;
			else high = middle - 1;
		}
		cut = low > 0 ? start(low) : "";
		if (this.cuts.size > 20000) this.cuts.clear();
		this.cuts.set(key, cut);
		return cut;
	}
}

// Colours that stay apart for colour-blind eyes (Okabe and Ito), as in the terminal; waiting is blue.
const KINDS = {
	own: { hue: 0xe69f00, waiting: 0x9cc3e6, words: "own code" },
	library: { hue: 0xf0e442, waiting: 0xc6dcf0, words: "library" },
	kernel: { hue: 0xd55e00, waiting: 0x7fa8d1, words: "kernel" },
	jit: { hue: 0x009e73, waiting: 0x8fd0cf, words: "JIT" },
	interpreted: { hue: 0x875fff, waiting: 0xafaf5f, words: "interpreted" },
	lock: { hue: 0x0072b2, words: "lock" },
	io: { hue: 0x56b4e9, words: "I/O" },
	nocpu: { hue: 0xcc79a7, words: "no CPU (runnable)" },
	wait: { hue: 0xa9b8e8, words: "other wait, idle" },
	thread: { hue: 0xd9d9d9, words: "thread" },
	other: { hue: 0xc9c4bd, words: "no stack, or cut" },
	rest: { hue: 0xbbbbbb, words: "… left out" },
};

const MATCH = "#e600e6";

// Colours of boxes, lighter or darker and a little to one side by their names.
class Palette {
	constructor() {
		this.colors = new Map();
	}
	of(at) {
		const key = at & ~INLINED;
		let color = this.colors.get(key);
		if (!color) this.colors.set(key, (color = this.mixed(at)));
		return color;
	}
	static base(key, is_waiting) {
		const kind = KINDS[key] || KINDS.other;
		const rgb = is_waiting && kind.waiting !== undefined ? kind.waiting : kind.hue;
		return [rgb >> 16, (rgb >> 8) & 255, rgb & 255];
	}
	mixed(at) {
		const key = key_of(at);
		let rgb = Palette.base(key, at & WAITING);
		if (["own", "library", "kernel", "jit"].includes(key)) {
			let hash = 0x811c9dc5;
			const name = full_name(at >> 2);
			for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
			hash ^= hash >>> 15;
			const light = ((hash >>> 3) % 29) / 100, turn = (((hash >>> 11) % 21) - 10) * (at & WAITING ? 0.7 : 1.4);
			rgb = rgb.map((channel, i) => Math.min(255, Math.max(0, channel + (255 - channel) * light + turn * [0.4, 1, -0.5][i])));
		}
		const [r, g, b] = rgb.map(Math.round);
		return { fill: `rgb(${r},${g},${b})`, ink: 0.3 * r + 0.59 * g + 0.11 * b > 95 ? "#000" : "#fff" };
	}
}
