import { describe, expect, it } from 'vitest';

import { enhance } from '../../src/pictures/enhance';
import { press, rootOf } from '../page';

const highlighted = () => document.head.querySelector('style[data-rfnb-dims]')?.textContent ?? '';

describe('dims', () => {
  const pill = (serial: string) => `<span class="rfnb-dim" data-rfnb-dim="${serial}">time:5</span>`;

  it('are highlighted while pointed at or focused, wherever they are on the page', () => {
    const root = rootOf(pill('7') + pill('8'));
    enhance(root, null);
    expect(highlighted()).toBe('');
    const [first, second] = root.querySelectorAll<HTMLElement>('span');
    first.dispatchEvent(new Event('pointerover', { bubbles: true }));
    expect(highlighted()).toContain('[data-rfnb-dim~="7"]');
    second.focus();
    expect(highlighted()).toContain('[data-rfnb-dim~="8"]');
    expect(highlighted()).not.toContain('"7"');
    second.blur();
    expect(highlighted()).toBe('');
  });

  it('are pinned by a click or Enter, in all views at once, until Escape', () => {
    const [one, two] = [rootOf(pill('7')), rootOf(pill('7') + pill('8'))];
    [one, two].forEach(root => enhance(root, { kind: 'tensor' }));
    one.querySelector('span')?.click();
    expect(two.querySelector('span')?.getAttribute('aria-pressed')).toBe('true');
    press(two.querySelectorAll('span')[1], 'Enter');
    expect(highlighted()).toMatch(/"8".*solid/);
    expect(one.querySelector('span')?.getAttribute('aria-pressed')).toBe('false');
    press(one.querySelector('span'), 'Escape');
    expect(highlighted()).toBe('');
    two.querySelector('span')?.click();
    two.querySelector('span')?.click();
    expect(highlighted()).not.toContain('solid');
  });

  it('are one stop of the tabulator in each view; what is folded away is no stop', () => {
    const root = rootOf(`<details><summary>x</summary>${pill('1')}</details>${pill('2')}${pill('3')}`);
    enhance(root, null);
    const stops = () => [...root.querySelectorAll<HTMLElement>('.rfnb-dim')].map(element => element.tabIndex);
    expect(stops()).toEqual([-1, 0, -1]);
    press(root.querySelectorAll('.rfnb-dim')[1], 'ArrowRight');
    expect(document.activeElement?.getAttribute('data-rfnb-dim')).toBe('3');
    expect(stops()).toEqual([-1, -1, 0]);
    root.querySelector('details')!.open = true;
    root.querySelector('details')!.dispatchEvent(new Event('toggle'));
    expect(stops()).toEqual([0, -1, -1]);
  });

  it('in the head of what folds do not fold it when clicked', () => {
    const root = rootOf(`<details><summary>${pill('1')}</summary></details>`);
    enhance(root, null);
    const click = new MouseEvent('click', { bubbles: true, cancelable: true });
    root.querySelector('span')?.dispatchEvent(click);
    expect(click.defaultPrevented).toBe(true);
  });

  it('cannot smuggle a rule into the style sheet', () => {
    const root = rootOf(`<span class="rfnb-dim" data-rfnb-dim='1"]{} body{display:none} [x="'>x</span>`);
    enhance(root, null);
    root.querySelector('span')?.click();
    expect(highlighted()).not.toContain('body');
  });

  it('are left alone when the view goes', () => {
    const root = rootOf(pill('7'));
    const dispose = enhance(root, null);
    dispose();
    root.querySelector('span')?.click();
    expect(highlighted()).toBe('');
  });
});
