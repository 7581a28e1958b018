import widget, { enhancePage } from '../pictures/widget';

enhancePage(document);

export default widget;
