import type { Args } from '../kernel/requests';
import type { IShown } from './shown';

/** Whether the kernel records the loops of plain Python in all cells that run. */
export class Recording {
  constructor(shown: IShown, onChange: () => void) {
    this._shown = shown;
    this._onChange = onChange;
  }

  /** null if that is not known, or if the kernel's rfnb cannot do it. */
  get on(): boolean | null {
    return this._on;
  }

  /** Ask the kernel. */
  async ask(): Promise<void> {
    await this._request({}).catch(() => undefined); // an older rfnb
  }

  /** Record the cells that run from now on, or do not. */
  async switch(on: boolean): Promise<void> {
    this._set(on);
    await this._request({ on }).catch(error => this._shown.complain(error));
  }

  /** The kernel is gone. */
  clear(): void {
    this._on = null;
  }

  /** Only the answer to the last request counts: the user may have switched since an earlier one. */
  private async _request(args: Args<'record_cells'>): Promise<void> {
    const request = ++this._requests;
    let on: boolean | null = null;
    try {
      on = await this._shown.connection.requests.request('record_cells', args);
    } finally {
      if (request === this._requests) {
        this._set(on);
      }
    }
  }

  private _set(on: boolean | null): void {
    this._on = on;
    this._onChange();
  }

  private _shown: IShown;
  private _onChange: () => void;
  private _on: boolean | null = null;
  private _requests = 0;
}
