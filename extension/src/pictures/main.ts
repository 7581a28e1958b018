import widget, { enhancePage } from './widget';

enhancePage(document);

export default widget;
