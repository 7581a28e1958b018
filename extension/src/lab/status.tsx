import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { pausedText } from '../views/panel/paused';
import { Words } from '../words';
import type { ILoops } from './tokens';

/** The part of the status bar that says which notebook is paused where; a click shows it in the panel. */
export class PausedStatus extends ReactWidget {
  constructor(loops: ILoops, words: Words, show: (notebook: string | null) => void) {
    super();
    this._loops = loops;
    this._words = words;
    this._show = show;
    this.addClass('rfnb-PausedStatus');
    loops.changed.connect(this._onChanged, this);
  }

  /** Whether any notebook is paused. */
  get isActive(): boolean {
    return !!this._loops.session?.paused || this._loops.pausedElsewhere.length > 0;
  }

  dispose(): void {
    this._loops.changed.disconnect(this._onChanged, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    const here = this._loops.session?.paused;
    return (
      <>
        {here && this._button(null, pausedText(here, this._words))}
        {this._loops.pausedElsewhere.map(({ id, name, paused }) =>
          this._button(id, pausedText(paused, this._words, name))
        )}
      </>
    );
  }

  private _button(notebook: string | null, text: string): JSX.Element {
    return (
      <button
        className="rfnb-PausedStatus-button"
        key={notebook}
        type="button"
        title={this._words.__('Show it in the panel')}
        onClick={() => this._show(notebook)}
      >
        {text}
      </button>
    );
  }

  private _onChanged(): void {
    this.update();
  }

  private _loops: ILoops;
  private _words: Words;
  private _show: (notebook: string | null) => void;
}
