import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { OPEN_PANEL } from '../commands';
import { CellMarks } from '../editor';
import { ILoops } from '../tokens';

const ID = 'rfnb-lab:marks';

/** Marks the current line of the loop in its notebook cell. */
export const marksPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Marks the current line of the loop, with its values, in the notebook cell.',
  autoStart: true,
  requires: [ILoops, INotebookTracker],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    loops: ILoops,
    notebooks: INotebookTracker,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const marks = new CellMarks(loops, notebooks, (translator ?? nullTranslator).load('rfnb'));
    marks.conditionAsked.connect((_, line) => {
      void app.commands.execute(OPEN_PANEL).then(() => focusCondition(line));
    });
    void registry?.load(ID).then(settings => {
      const follow = () => (marks.lineValues = settings.get('lineValues').composite as boolean);
      settings.changed.connect(follow);
      follow();
    });
  }
};

/** Give the focus to the condition of a mark, once the panel has drawn it. */
function focusCondition(line: number): void {
  requestAnimationFrame(() => {
    document.querySelector<HTMLElement>(`.rfnb-Panel .rfnb-Stop[data-line="${line}"] select`)?.focus();
  });
}
