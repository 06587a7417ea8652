// Sets the controls to a state as a person would, and reads what the page shows.

window.read = () => ({
  counts: Object.fromEntries(Array.from(document.querySelectorAll("#counts > div"),
    (entry) => [entry.dataset.count, entry.querySelector("dd").textContent])),
  summary: document.getElementById("summary").textContent,
  scenario: document.getElementById("scenario-text").textContent,
  command: document.getElementById("command").textContent,
  pictured: document.querySelectorAll("#picture svg").length,
  hash: document.getElementById("link").hash,
});
window.choose = (state) => {
  for (const name of ["cc", "op", "size", "layout", "fields", "field", "group", "stride", "offset"]) {
    document.getElementById(name).value = String(state[name]);
  }
  document.querySelectorAll("#lanes input").forEach((box, lane) => { box.checked = (state.mask >>> lane & 1) === 1; });
  const start = performance.now();
  document.getElementById("stride").dispatchEvent(new Event("input", { bubbles: true }));
  document.body.getBoundingClientRect();
  const ms = performance.now() - start;
  return { ...read(), ms };
};
