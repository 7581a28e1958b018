import { afterEach } from 'vitest';

afterEach(() => {
  document.body.replaceChildren();
  document.head.replaceChildren();
});

/** Show HTML on the page; returns the element around it. */
export function rootOf(html: string): HTMLElement {
  const root = document.createElement('div');
  root.innerHTML = html;
  document.body.append(root);
  return root;
}

export function press(element: Element | null, key: string): void {
  element?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}
