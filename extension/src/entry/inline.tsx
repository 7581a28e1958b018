import * as React from 'react';
import { createRoot } from 'react-dom/client';

import { Requests } from '../kernel/requests';
import type { Reply, RunView, StepView } from '../schema';
import { actionsOf } from '../stepper/actions';
import { Notes } from '../stepper/notes';
import { Stepper } from '../stepper/stepper';
import type { Place } from '../stepper/stepper_state';
import { Training } from '../stepper/training';
import { StepperView } from '../views/stepper/stepper';
import { followTheme } from './shadow';

/** The part of an anywidget model that is used here. */
export interface IWidgetModel {
  /** Whether the model has no kernel. */
  readonly still?: boolean;
  get(name: 'run'): RunView;
  get(name: 'first'): StepView | null;
  send(content: unknown): void;
  on(event: 'msg:custom', callback: (content: unknown) => void): void;
  off(event: 'msg:custom', callback: (content: unknown) => void): void;
}

/** Show the stepper in a cell's output; returns a function that removes it. */
function render({ model, el }: { model: IWidgetModel; el: HTMLElement }): () => void {
  const requests = new Requests(message => model.send(message));
  const receive = (content: unknown) => requests.receive(content as Reply);
  model.on('msg:custom', receive);
  el.classList.add('rfnb-Inline', 'rfnb-Look');
  el.dataset.lmSuppressShortcuts = 'true'; // or the notebook would take the arrow keys
  const unfollow = followTheme(el);
  const notes = new Notes();
  const root = createRoot(el);
  let stepper: Stepper | null = null;
  let drawing = false;
  const draw = () => {
    if (drawing) {
      queueMicrotask(draw); // a text field that is removed reports its text during drawing
    } else if (stepper) {
      drawing = true;
      root.render(<StepperView key={stepper.state.run.loop} state={stepper.state} actions={actionsOf(stepper)} />);
      drawing = false;
    }
  };
  const show = (run: RunView, first: StepView | null, at: Place | null) => {
    stepper?.dispose();
    stepper = new Stepper(requests, run, first, {
      notes,
      trail: at?.trail ?? [],
      still: model.still,
      isIdle: () => !model.still,
      open,
      train: (to, place) => training.go(run.run, to, place, notes.of(run.loop).watches),
      trainingTarget: training.target,
      wanted: at?.step
    });
    stepper.changed.connect(draw);
    if (!first) {
      stepper.goto(at?.step ?? 0);
      stepper.choose(at?.sequence ?? null);
    }
    if (at?.line != null) {
      stepper.look(at.line);
    }
    draw();
  };
  const open = (run: number, at: Place) => {
    requests.request('run', { run }).then(
      view => show(view, null, at),
      error => stepper?.complain(error)
    );
  };
  const training = new Training(
    requests,
    (run, at, first) => show(run, first, at),
    error => stepper?.complain(error)
  );
  show(model.get('run'), model.get('first') ?? null, null);
  return () => {
    model.off('msg:custom', receive);
    unfollow();
    stepper?.dispose();
    root.unmount();
  };
}

export default { render };
