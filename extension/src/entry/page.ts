import { show } from './standalone';

show(document);
