import type { ITranslator } from '@jupyterlab/translation';
import { ReactWidget, SidePanel } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Panel, SplitPanel, Widget } from '@lumino/widgets';
import * as React from 'react';

import { actionsOf } from '../stepper/actions';
import { LoopsView } from '../views/panel/loops';
import { Words, WordsContext } from '../views/words';
import { loopIcon } from './icon';
import type { ILoops } from './tokens';

/** Where the width last used is kept, and the one before any was. */
const KEY = 'rfnb-lab:width';
const WIDTH = 420;

/** The side panel "Loops". */
export class LoopsPanel extends SidePanel {
  constructor(loops: ILoops, translator: ITranslator, activate: (id: string) => void, insert: (code: string) => void) {
    super({ content: new Panel(), translator });
    const words = translator.load('rfnb');
    this.id = 'rfnb-loops';
    this.addClass('rfnb-Panel');
    this.title.icon = loopIcon;
    this.title.caption = words.__('Loops: step through recorded runs');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', words.__('Loops'));
    this.content.addClass('rfnb-Panel-content');
    this.content.addWidget(new LoopsBody(loops, words, activate, insert));
  }

  /** Opens as wide as it was last. */
  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    requestAnimationFrame(() => {
      widen(this, Number(localStorage.getItem(KEY)) || WIDTH);
      this._isOpen = true;
    });
  }

  protected onBeforeHide(msg: Message): void {
    this._isOpen = false;
    super.onBeforeHide(msg);
  }

  protected onResize(msg: Widget.ResizeMessage): void {
    super.onResize(msg);
    if (this._isOpen && msg.width > 0) {
      localStorage.setItem(KEY, String(Math.round(msg.width)));
    }
  }

  private _isOpen = false;
}

/** Gives the side area of a widget so many pixels, at most half of the window. */
function widen(widget: Widget, pixels: number): void {
  let area = widget;
  while (area.parent && !(area.parent instanceof SplitPanel)) {
    area = area.parent;
  }
  const split = area.parent;
  if (split instanceof SplitPanel && split.node.clientWidth > 0) {
    const sizes = split.relativeSizes();
    const at = split.widgets.indexOf(area);
    const share = Math.min(pixels / split.node.clientWidth, 0.5);
    const rest = (1 - share) / (1 - sizes[at]);
    split.setRelativeSizes(sizes.map((size, i) => (i === at ? share : size * rest)));
  }
}

/** Draws the model whenever it changes, while it can be seen. */
class LoopsBody extends ReactWidget {
  constructor(loops: ILoops, words: Words, activate: (id: string) => void, insert: (code: string) => void) {
    super();
    this._activate = activate;
    this._insert = insert;
    this._loops = loops;
    this._words = words;
    this.addClass('rfnb-Panel-body');
    loops.changed.connect(this._onChanged, this);
  }

  dispose(): void {
    this._loops.changed.disconnect(this._onChanged, this);
    super.dispose();
  }

  processMessage(msg: Message): void {
    super.processMessage(msg);
    if (this._loops.visible !== this.isVisible) {
      this._loops.visible = this.isVisible;
    }
  }

  protected render(): JSX.Element {
    const { notebook, session, filter } = this._loops;
    const stepper = session?.stepper ?? null;
    const connection = session?.connection ?? null;
    return (
      <WordsContext.Provider value={this._words}>
        <LoopsView
          notebook={notebook?.title.label ?? null}
          link={connection?.link ?? null}
          busy={connection?.busy ?? false}
          paused={session?.paused ?? null}
          pauses={session?.pauses ?? false}
          records={session?.records ?? null}
          onRecord={on => session?.record(on)}
          pausedElsewhere={this._loops.pausedElsewhere}
          onActivate={this._activate}
          complaint={connection?.complaint ?? null}
          error={session?.error ?? null}
          runs={session?.runs ?? []}
          filter={filter}
          stepper={stepper?.state ?? null}
          stepperActions={stepper && actionsOf(stepper)}
          runActions={{
            open: run => void session?.open(run),
            pin: (run, pinned) => session?.pin(run, pinned),
            forget: run => session?.forget(run),
            compare: other => stepper?.ask('compare', { other, sequence: stepper.state.step?.sequence ?? null }),
            rerun: run => session?.rerun(run)
          }}
          pauseActions={{
            pause: on => session?.pause(on),
            resume: (how, toMatch) => (toMatch ? stepper?.resume(how, true) : session?.resume(how)),
            resumeTo: step => session?.resume('continue', [], step)
          }}
          onFilter={text => (this._loops.filter = text)}
          onInsert={this._insert}
          onRefresh={() => session?.refresh()}
        />
      </WordsContext.Provider>
    );
  }

  private _onChanged(): void {
    this.update();
  }

  private _activate: (id: string) => void;
  private _insert: (code: string) => void;
  private _loops: ILoops;
  private _words: Words;
}
