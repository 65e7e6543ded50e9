// Added by prof after the script of the flame graph, whose functions it wraps: controls that stay on the screen, a
// search in the page that reports errors in place, shares of the zoomed part, and names cut between characters.
(function () {
    "use strict";
    var NS = "http://www.w3.org/2000/svg", XHTML = "http://www.w3.org/1999/xhtml";
    var root = document.documentElement;
    var height = parseFloat(root.getAttribute("height"));
    var zoomed = null, box = null;

    function node(id) { return document.getElementById(id); }

    // Controls that scroll out of view with a tall picture are moved back.
    var bar = document.createElementNS(NS, "g");
    bar.id = "bar";
    var top_rect = bar.appendChild(document.createElementNS(NS, "rect"));
    var low_rect = bar.appendChild(document.createElementNS(NS, "rect"));
    [top_rect, low_rect].forEach(function (rect) { rect.setAttribute("width", "100%"); rect.setAttribute("height", 0); });
    function place() {
        var y = window.scrollY, room = window.innerHeight, tall = height > room + 1;
        function move(id, at) {
            var text = node(id);
            if (!text.hasAttribute("fg:y")) text.setAttribute("fg:y", text.getAttribute("y"));
            text.setAttribute("y", at === null ? text.getAttribute("fg:y") : at);
        }
        move("details", tall ? y + room - 10 : null);
        move("matched", tall ? y + room - 10 : null);
        move("search", tall && y > 0 ? y + 20 : null);
        move("unzoom", tall && y > 0 ? y + 20 : null);
        low_rect.setAttribute("y", y + room - 26);
        low_rect.setAttribute("height", tall ? 26 : 0);
        top_rect.setAttribute("y", y);
        top_rect.setAttribute("height", tall && y > 0 ? 28 : 0);
        if (box) box.setAttribute("y", y + 26);
    }

    function say(text) {
        var matched = node("matched");
        matched.classList.remove("hide");
        matched.firstChild.nodeValue = text;
    }

    var find = search, ask_or_reset = search_prompt, zoom_in = zoom, zoom_out = unzoom, cut = update_text_for_elements;

    search = function (term) {
        try {
            new RegExp(term);
        } catch (error) {
            say("not searched: " + error.message);
            return;
        }
        if (term === "") return;
        find(term);
        if (!searching) say("Matched: nothing");
    };
    search_prompt = function () {
        if (searching) return ask_or_reset();
        if (box) { close(); return; }
        box = document.createElementNS(NS, "foreignObject");
        box.id = "find";
        box.setAttribute("x", Math.max(0, root.clientWidth - 330));
        box.setAttribute("width", 320);
        box.setAttribute("height", 30);
        var input = document.createElementNS(XHTML, "input");
        input.setAttribute("aria-label", "search, a regular expression");
        input.setAttribute("placeholder", "regular expression, Enter searches");
        input.addEventListener("keydown", function (event) {
            event.stopPropagation();
            if (event.key === "Enter") { search(input.value); if (searching) close(); }
            if (event.key === "Escape") close();
        });
        box.appendChild(input);
        root.appendChild(box);
        place();
        input.focus();
    };
    function close() {
        if (box) box.remove();
        box = null;
    }

    zoom = function (group) {
        zoom_in(group);
        zoomed = parseInt(find_child(group, "rect").getAttribute("fg:w"));
    };
    unzoom = function () {
        zoom_out();
        zoomed = null;
    };
    window.addEventListener("mouseover", function (event) {
        var group = find_group(event.target);
        if (!group || !zoomed || group.classList.contains("parent")) return;
        var width = parseInt(find_child(group, "rect").getAttribute("fg:w"));
        details.nodeValue += "  " + (100 * width / zoomed).toFixed(1) + "% of zoom";
    });

    // The script cuts names as if all characters were one UTF-16 unit and equally wide.
    var parts = window.Intl && Intl.Segmenter ? new Intl.Segmenter() : null;
    function graphemes(text) {
        return parts ? Array.from(parts.segment(text), function (part) { return part.segment; }) : Array.from(text);
    }
    update_text_for_elements = function (groups) {
        cut(groups);
        for (var i = 0; i < groups.length; i++) {
            var name = find_child(groups[i], "title").textContent.replace(/ \([^(]*\)$/, "");
            if (/^[\x20-\x7e]*$/.test(name)) continue;
            var text = find_child(groups[i], "text");
            var rect = find_child(groups[i], "rect");
            var room = parseFloat(rect.getAttribute("width")) * frames.getAttribute("width") / 100 - 6;
            var all = graphemes(name), low = 0, high = all.length;
            var at = function (length) { return length < all.length ? all.slice(0, length).join("") + "…" : name; };
            while (low < high) {
                var middle = (low + high + 1) >> 1;
                text.textContent = at(middle);
                if (text.getComputedTextLength() <= room) low = middle; else high = middle - 1;
            }
            text.textContent = low > 0 ? at(low) : "";
        }
    };

    window.addEventListener("keydown", function (event) {
        if (event.key === "/" && !box) { event.preventDefault(); search_prompt(); }
        if (event.key === "Escape") { if (box) close(); else unzoom(); }
    });
    window.addEventListener("scroll", place);
    window.addEventListener("resize", place);
    window.addEventListener("load", function () {
        root.appendChild(bar);
        ["details", "matched", "search", "unzoom"].forEach(function (id) { root.appendChild(node(id)); });
        ["search", "unzoom"].forEach(function (id) {
            node(id).setAttribute("role", "button");
            node(id).setAttribute("tabindex", "0");
            node(id).addEventListener("keydown", function (event) {
                if (event.key === "Enter") node(id).dispatchEvent(new MouseEvent("click", { bubbles: true }));
            });
        });
        // The root of a tall flame graph is at the bottom.
        if (!inverted) window.scrollTo(0, height);
        place();
    });
})();
