const KEPT = new Set(
  'svg g path rect line polyline polygon circle ellipse text tspan title desc defs marker linearGradient stop'.split(
    ' '
  )
);
const LOCAL = /url\(#/gi;
const PREFIX = 'data:image/svg+xml;base64,';

/** The drawing in the data URI of an image; null if the image is not an SVG. */
export function svgOfImage(image: HTMLImageElement, prefix: string): SVGSVGElement | null {
  const address = image.getAttribute('src') ?? '';
  return address.startsWith(PREFIX) ? svgOf(textOf(address.slice(PREFIX.length)), prefix) : null;
}

/**
 * Parses an SVG and keeps only shapes and text: no scripts, and no references to other files.
 *
 * Its ids get the prefix, because ids must be unique on a page.
 */
export function svgOf(text: string, prefix: string): SVGSVGElement | null {
  const root = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  if (root.tagName !== 'svg') {
    return null;
  }
  clean(root, prefix);
  return document.importNode(root, true) as unknown as SVGSVGElement;
}

/** Parses the inside of an `<svg>`, with the same rules. */
export function fragment(text: string, prefix: string): SVGElement[] {
  const whole = svgOf(`<svg xmlns="http://www.w3.org/2000/svg">${text}</svg>`, prefix);
  return whole ? ([...whole.children] as SVGElement[]) : [];
}

function clean(element: Element, prefix: string): void {
  for (const { name, value } of [...element.attributes]) {
    const renamed = name === 'id' ? prefix + value : value.replace(LOCAL, `url(#${prefix}`);
    const outside = value.replace(LOCAL, '');
    if (/^on|href$|^src$/i.test(name) || /url\(|javascript:|@import|expression\(/i.test(outside)) {
      element.removeAttribute(name);
    } else if (renamed !== value) {
      element.setAttribute(name, renamed);
    }
  }
  for (const child of [...element.children]) {
    if (KEPT.has(child.tagName)) {
      clean(child, prefix);
    } else {
      child.remove();
    }
  }
}

function textOf(base64: string): string {
  const bytes = Uint8Array.from(atob(base64), character => character.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
