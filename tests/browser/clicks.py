"""Clicks on "next" and "previous" in turn, and how long each took to be shown."""

from __future__ import annotations

CLICKS = """async count => {
  const root = document.querySelector('.rfnb-Loops');
  const shown = () => root.querySelector('.rfnb-Stepper[aria-busy=false] .rfnb-Transport-step')?.textContent;
  const change = before => new Promise(resolve => {
    const look = () => shown() && shown() !== before && (observer.disconnect(), resolve());
    const observer = new MutationObserver(look);
    observer.observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  const times = [];
  for (let i = 0; i < count; i++) {
    const before = shown();
    const changed = change(before);
    const begin = performance.now();
    root.querySelector(i % 2 ? '[data-step=previous]' : '[data-step=next]').click();
    await changed;
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - begin);
  }
  return times.sort((a, b) => a - b);
}"""
"""Sorted, in ms, up to the next frame; run it in the page with how many clicks."""
