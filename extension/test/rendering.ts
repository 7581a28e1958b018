import { act } from 'react';
import { createRoot, type Root } from 'react-dom/client';
import { afterEach, vi } from 'vitest';

import { Requests } from '../src/kernel/requests';
import { actionsOf, type StepperActions } from '../src/stepper/actions';
import { Stepper } from '../src/stepper/stepper';
import type { StepperState } from '../src/stepper/stepper_state';
import { runView, stepView } from './examples';

let root: Root | null = null;

afterEach(() => {
  act(() => root?.unmount());
  document.body.textContent = '';
});

export function show(element: JSX.Element): HTMLElement {
  const host = document.body.appendChild(document.createElement('div'));
  root = createRoot(host);
  act(() => root?.render(element));
  return host;
}

/** Show this instead of what is shown. */
export function redraw(element: JSX.Element): void {
  act(() => root?.render(element));
}

export function actions(): StepperActions {
  const stepper = new Stepper(new Requests(() => undefined), runView());
  return Object.fromEntries(Object.keys(actionsOf(stepper)).map(name => [name, vi.fn()])) as unknown as StepperActions;
}

export function state(change: Partial<StepperState> = {}): StepperState {
  return { ...new Stepper(new Requests(() => undefined), runView(), stepView(3)).state, ...change };
}

export function press(
  host: HTMLElement,
  key: string,
  selector = '.rfnb-Stepper',
  modifiers: KeyboardEventInit = {}
): Event {
  const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...modifiers });
  act(() => void host.querySelector(selector)?.dispatchEvent(event));
  return event;
}

export function type(host: HTMLElement, selector: string, text: string, key = 'Enter'): void {
  const field = host.querySelector<HTMLInputElement>(selector)!;
  const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')!;
  act(() => {
    set!.call(field, text);
    field.dispatchEvent(new Event('input', { bubbles: true }));
  });
  act(() => void field.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })));
}

export function select(host: HTMLElement, selector: string, value: string): void {
  const list = host.querySelector<HTMLSelectElement>(selector)!;
  act(() => {
    list.value = value;
    list.dispatchEvent(new Event('change', { bubbles: true }));
  });
}

export const click = (host: HTMLElement, selector: string) =>
  act(() => void host.querySelector<HTMLElement>(selector)?.click());
