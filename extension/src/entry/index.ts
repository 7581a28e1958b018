import { commandsPlugin } from '../lab/plugins/commands';
import { loopsPlugin } from '../lab/plugins/loops';
import { marksPlugin } from '../lab/plugins/marks';
import { panelPlugin } from '../lab/plugins/panel';
import { statusPlugin } from '../lab/plugins/status';
import { viewsPlugin } from '../lab/plugins/views';

export * from '../lab/tokens';

export default [loopsPlugin, panelPlugin, commandsPlugin, marksPlugin, statusPlugin, viewsPlugin];
