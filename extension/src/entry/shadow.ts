/**
 * In a shadow root, as in marimo, styles do not see the page around it: follow whether that is dark.
 *
 * Returns a function that ends it.
 */
export function followTheme(el: HTMLElement): () => void {
  const follow = () => {
    if (el.getRootNode() instanceof ShadowRoot) {
      el.dataset.theme = document.querySelector('html.dark, body.dark') ? 'dark' : 'light';
    }
  };
  const observer = new MutationObserver(follow);
  [document.documentElement, document.body].forEach(node => observer.observe(node, { attributeFilter: ['class'] }));
  follow();
  requestAnimationFrame(follow); // some hosts attach the element after they filled it
  return () => observer.disconnect();
}
