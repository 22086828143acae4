"use strict";
// Adds to pages that work without it: the viewer's own time beside each instant, and streams that
// keep a page up to date. A region is not replaced while the viewer works in it.
(() => {
  const format = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const localize = (root) => {
    for (const time of root.querySelectorAll("time.instant[datetime]")) {
      if (time.querySelector(".yours")) continue;
      const text = format.format(new Date(time.dateTime));
      // A time that stands there already, of UTC or of the user's zone, is not repeated.
      const shown = [...time.querySelectorAll(".wall,.utc")].map((one) => one.textContent.replace("T", " ").slice(0, text.length));
      if (shown.includes(text)) continue;
      const yours = document.createElement("span");
      yours.className = "yours";
      yours.textContent = text + " yours";
      time.append(" ", yours);
    }
  };
  localize(document);
  for (const name of document.querySelectorAll("[data-zone]")) name.textContent = "yours (" + zone + ") if it shows another time";

  for (const form of document.querySelectorAll("form[data-submit]")) form.addEventListener("change", () => form.requestSubmit());

  const bar = document.querySelector("[data-live]");
  const region = document.querySelector("[data-region]");
  if (!bar || !region || !window.EventSource) return;
  const state = bar.querySelector("[data-state]");
  const pause = bar.querySelector("[data-pause]");
  let source = null, paused = false, waiting = null;
  const say = (text, name) => { if (state.textContent !== text) state.textContent = text; bar.classList.toggle("on", name === "on"); bar.classList.toggle("off", name === "off"); };
  const busy = () => {
    const selection = document.getSelection();
    return region.contains(document.activeElement) || region.querySelector("input:checked") !== null ||
      (selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  };
  const show = (html) => {
    if (busy()) { waiting = html; return; }
    waiting = null;
    const open = [...region.querySelectorAll("details")].map((d) => d.open);
    region.innerHTML = html;
    region.querySelectorAll("details").forEach((d, i) => { d.open = open[i] || false; });
    localize(region);
    document.dispatchEvent(new CustomEvent("almanac:live"));
  };
  const stop = () => { if (source) source.close(); source = null; };
  const start = () => {
    if (source || paused || document.hidden) return;
    source = new EventSource(bar.dataset.live);
    source.addEventListener("page", (e) => { say("Live", "on"); show(e.data); });
    source.addEventListener("offline", (e) => say(e.data + " Trying again.", "off"));
    source.onerror = () => {
      say("No connection; trying again", "off");
      if (source && source.readyState === EventSource.CLOSED) { stop(); setTimeout(start, 5000); }
    };
  };
  document.addEventListener("visibilitychange", () => { document.hidden ? stop() : start(); });
  document.addEventListener("focusout", () => { if (waiting) setTimeout(() => waiting && show(waiting), 0); });
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Freeze";
    if (paused) { stop(); say("Not updated", ""); } else start();
  });
  start();
})();
