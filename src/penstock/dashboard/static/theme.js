// Runs before the first paint, so that the page does not flash in the other theme. Kept in localStorage by app.js.
try {
  const theme = localStorage.getItem("penstock-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* a browser that keeps nothing follows the system */ }
