"""What a page looks like, measured: words that are hard to read, content that does not fit, faults that axe finds."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from playwright.sync_api import Page

WEAK = """root => {
  const parsed = colour => {
    const numbers = (colour.match(/[\\d.]+(e-?\\d+)?/g) ?? [0, 0, 0, 0]).map(Number);
    const [r, g, b, a = 1] = colour.startsWith('color(') ? numbers.map((n, i) => (i < 3 ? n * 255 : n)) : numbers;
    return { r, g, b, a };
  };
  const over = (top, ground) => ({ a: 1, ...Object.fromEntries(['r', 'g', 'b'].map(
    c => [c, top[c] * top.a + ground[c] * (1 - top.a)])) });
  const light = ({ r, g, b }) => [r, g, b].map(n => n / 255).map(
    n => (n <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4)
  ).reduce((sum, n, i) => sum + n * [0.2126, 0.7152, 0.0722][i], 0) + 0.05;
  const contrast = (a, b) => (a > b ? a / b : b / a);
  const chain = element => (element ? [...chain(element.parentElement), element] : []);
  const styles = new Map();
  const style = element => styles.get(element) ?? styles.set(element, getComputedStyle(element)).get(element);
  const opacity = element => chain(element).reduce((share, one) => share * style(one).opacity, 1);
  const canvas = document.createElement('i');
  canvas.style.color = 'Canvas';
  document.body.append(canvas);
  const empty = parsed(getComputedStyle(canvas).color);
  canvas.remove();
  const ground = element => chain(element).reduce((below, one) => {
    const own = parsed(style(one).backgroundColor);
    return over({ ...own, a: own.a * opacity(one) }, below);
  }, empty);
  const shapes = new Map();
  const drawn = svg => shapes.get(svg) ?? shapes.set(svg, [...svg.querySelectorAll('rect, path, circle')].map(
    shape => [shape, style(shape).fill, shape.getBoundingClientRect()]
  ).filter(([, fill]) => fill !== 'none')).get(svg);
  const below = text => {
    const svg = text.closest('svg');
    const { left, right, top, bottom } = text.getBoundingClientRect();
    const [x, y] = [(left + right) / 2, (top + bottom) / 2];
    return drawn(svg).reduce((under, [shape, fill, box]) => {
      const own = parsed(fill);
      const isBelow = shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
      const isThere = box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
      return isBelow && isThere ? over({ ...own, a: own.a * style(shape).fillOpacity * opacity(shape) }, under) : under;
    }, ground(svg));
  };
  const found = new Map();
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { textContent: words, parentElement: element } = walker.currentNode;
    const isOff = element.closest('[aria-disabled=true], :disabled, option, title, desc, script, style');
    if (isOff || !/[\\p{L}\\p{N}]/u.test(words) || !element.checkVisibility({ visibilityProperty: true })) {
      continue;
    }
    const text = element.closest('text');
    const back = text ? below(text) : ground(element);
    const own = parsed(text ? style(element).fill : style(element).color);
    const ink = over({ ...own, a: own.a * opacity(element) }, back);
    const ratio = contrast(light(ink), light(back));
    if (ratio < 4.5) {
      const where = element.closest('[data-view]')?.dataset.view ?? '';
      const kind = `${where}: ${element.tagName}.${element.getAttribute('class') ?? ''}`;
      found.set(kind, `${words.trim().slice(0, 40)} ${ratio.toFixed(2)}`);
    }
  }
  return [...found].map(parts => parts.join(': '));
}"""
"""Words whose contrast to what is behind them is below 4.5; where a kind of element has several, one of them."""

WIDE = """() => [...document.querySelectorAll('[data-view]')].flatMap(view => {
  const beyond = view.scrollWidth - view.clientWidth;
  return beyond > 0 ? [`${view.dataset.view}: ${beyond} pixels too wide`] : [];
})"""

FAULTS = """async place => {
  const { violations } = await axe.run(place, { resultTypes: ['violations'] });
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return grave.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
}"""


def weak_words(page: Page, place: str = "body") -> list[str]:
    """Words whose contrast is below 4.5, with their element."""
    return page.locator(place).first.evaluate(WEAK)


def wide_views(page: Page) -> list[str]:
    """Views of which something reaches beyond them, in no frame that scrolls."""
    return page.evaluate(WIDE)


def faults(page: Page, missing, place: str = "body") -> list[str]:
    """Serious and critical faults that axe finds."""
    axe = find_spec("axe_playwright_python") or missing("axe-core is not installed (make test installs it)")
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(Path(axe.origin).with_name("axe.min.js").read_text(encoding="utf-8"))
    return page.evaluate(FAULTS, place)
