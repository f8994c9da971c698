// Keys: a page gives its own with keys(map), and takes them back when it is left. Nothing is taken while someone types.

const layers = [];

/** bind({j: f, Enter: g}) → a function that takes them back. Later ones come first; a handler that returns false passes. */
export function bind(map) {
  layers.unshift(map);
  return () => { const at = layers.indexOf(map); if (at >= 0) layers.splice(at, 1); };
}

const typing = (target) => target.closest?.("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return; // its own meaning
  if (document.querySelector("dialog:modal")) return; // Escape is its own too
  for (const map of layers) {
    if (map[event.key] && map[event.key](event) !== false) {
      event.preventDefault();
      return;
    }
  }
});
