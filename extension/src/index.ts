import { commandsPlugin } from './plugins/commands';
import { loopsPlugin } from './plugins/loops';
import { marksPlugin } from './plugins/marks';
import { panelPlugin } from './plugins/panel';
import { viewsPlugin } from './plugins/views';

export * from './tokens';

export default [loopsPlugin, panelPlugin, commandsPlugin, marksPlugin, viewsPlugin];
