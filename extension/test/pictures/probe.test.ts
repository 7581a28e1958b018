import { beforeEach, describe, expect, it } from 'vitest';

import { enhance } from '../../src/pictures/enhance';
import { rootOf } from '../page';

const PNG = 'data:image/png;base64,';

/** Three training steps; the second one has no card, and only one step of the loop. */
const slide = (step: number, picture: string, values: string[][]) => ({
  step,
  picture,
  shape: [2, 4],
  words: `<b>said ${step}</b>`,
  measures: { loss: 1 / step },
  values,
  note: null
});
const scripts = {
  kind: 'probe',
  loop: { name: 'decoder', states: ['h', '<i>'], steps: [0, 4] },
  slides: [
    slide(1, '', [
      ['1', 'a'],
      ['2', 'b']
    ]),
    slide(2, `${PNG}two`, [['3', 'c']]),
    slide(4, '', [
      ['5', 'd'],
      ['6', 'e']
    ])
  ]
};
const HTML = `<p>head</p><div data-rfnb-shots=""><img data-rfnb-shot="1" src="${PNG}one">
  <img data-rfnb-shot="4" src="https://example.org/four"></div>`;

let root: HTMLElement;

beforeEach(() => {
  root = rootOf(HTML);
});

function slideTo(label: string, at: number): void {
  const slider = root.querySelector<HTMLInputElement>(`input[aria-label="${label}"]`)!;
  slider.value = String(at);
  slider.dispatchEvent(new Event('input'));
}

const said = (label: string) => root.querySelector(`input[aria-label="${label}"]`)?.getAttribute('aria-valuetext');
const text = (selector: string) => root.querySelector(`.rfnb-Slides ${selector}`)?.textContent;
const source = () => root.querySelector('.rfnb-Slides img')?.getAttribute('src');

describe('the sliders of a probe', () => {
  it('begin with the last training step and the first step of the loop', () => {
    enhance(root, scripts);
    expect(said('Training step')).toBe('4 (3 of 3), loss 0.25');
    expect(said('Step of decoder')).toBe('0');
    expect(text('caption')).toBe('after step 0');
    expect([...root.querySelectorAll('.rfnb-Slides td')].map(cell => cell.textContent)).toEqual(['5', 'd']);
    expect(root.querySelector('.rfnb-Slides b, .rfnb-Slides i')).toBeNull(); // names are text
    expect(root.querySelector('.rfnb-Slides')?.nextElementSibling).toBe(root.querySelector('[data-rfnb-shots]'));
  });

  it('keep the step of the loop where another training step has that many', () => {
    enhance(root, scripts);
    slideTo('Step of decoder', 1);
    expect(text('caption')).toBe('after step 4');
    slideTo('Training step', 1);
    expect([said('Step of decoder'), text('td'), text('.rfnb-Slides-words')]).toEqual(['0', '3', '<b>said 2</b>']);
    slideTo('Training step', 0);
    expect([said('Step of decoder'), text('td')]).toEqual(['4', '2']);
  });

  it('show the picture of a card, or that of the slide, and fetch nothing', () => {
    enhance(root, scripts);
    expect(source()).toBeUndefined();
    slideTo('Training step', 1);
    expect(source()).toBe(`${PNG}two`);
    slideTo('Training step', 0);
    expect(source()).toBe(`${PNG}one`);
  });

  it('are removed again, and are not there without several training steps, or without a loop', () => {
    enhance(root, scripts)();
    expect(root.innerHTML).toBe(HTML);
    enhance(root, { ...scripts, slides: scripts.slides.slice(1, 2) } as object);
    enhance(root, { kind: 'probe' });
    expect(root.querySelector('.rfnb-Slides')).toBeNull();
    enhance(root, { ...scripts, loop: null } as object);
    expect(root.querySelectorAll('.rfnb-Slides input').length).toBe(1);
    expect(root.querySelector('.rfnb-Slides table')).toBeNull();
  });
});
