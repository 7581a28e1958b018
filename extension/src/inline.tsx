import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { actionsOf } from './actions';
import { Requests } from './requests';
import type { Reply, RunView, StepView } from './schema';
import { Stepper } from './stepper';
import { StepperView } from './views/stepper';

/** The part of an anywidget model that is used here. */
export interface IWidgetModel {
  get(name: 'run'): RunView;
  get(name: 'first'): StepView | null;
  send(content: unknown): void;
  on(event: 'msg:custom', callback: (content: unknown) => void): void;
  off(event: 'msg:custom', callback: (content: unknown) => void): void;
}

/** Show the stepper in a cell's output; returns what takes it away again. */
function render({ model, el }: { model: IWidgetModel; el: HTMLElement }): () => void {
  const requests = new Requests(message => model.send(message));
  const receive = (content: unknown) => requests.receive(content as Reply);
  model.on('msg:custom', receive);
  const first = model.get('first');
  const stepper = new Stepper(requests, model.get('run'), first ?? null);
  el.classList.add('rfnb-Inline', 'rfnb-Look');
  el.dataset.lmSuppressShortcuts = 'true'; // or the notebook would take the arrow keys
  const root = createRoot(el);
  const draw = () => root.render(<StepperView state={stepper.state} actions={actionsOf(stepper)} />);
  stepper.changed.connect(draw);
  draw();
  if (!first) {
    stepper.first();
  }
  return () => {
    model.off('msg:custom', receive);
    stepper.dispose();
    root.unmount();
  };
}

export default { render };
