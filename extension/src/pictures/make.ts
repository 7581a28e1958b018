const SVG = 'http://www.w3.org/2000/svg';

type Attributes = { [name: string]: string | number | boolean | null | undefined };
type Child = Node | string | null;

/** An HTML element; strings become text, never markup. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element; strings become text, never markup. */
export function draw<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A button with a sign on it, and a title that says what it does. */
export function button(sign: string, title: string, press: () => void): HTMLButtonElement {
  const made = make('button', { type: 'button', title, 'aria-label': title }, sign);
  made.addEventListener('click', press);
  return made;
}

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...children.filter(child => child !== null));
  return element;
}
