/** Frames of wide tables are a stop of the tabulator while they have something to scroll to. */
export function enhanceFrames(root: HTMLElement): () => void {
  if (typeof ResizeObserver === 'undefined') {
    return () => undefined;
  }
  const observer = new ResizeObserver(entries => entries.forEach(({ target }) => stop(target as HTMLElement)));
  root.querySelectorAll('[style*="overflow-x"]:not([tabindex])').forEach(frame => observer.observe(frame));
  return () => observer.disconnect();
}

function stop(frame: HTMLElement): void {
  if (frame.scrollWidth > frame.clientWidth) {
    frame.tabIndex = 0;
    frame.dataset.lmSuppressShortcuts = 'true'; // or the notebook would take the arrow keys
  } else {
    frame.removeAttribute('tabindex');
  }
}
