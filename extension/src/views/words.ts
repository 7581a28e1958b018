import * as React from 'react';

import { PLAIN, Words } from '../words';

export { PLAIN, Words };

export const WordsContext = React.createContext<Words>(PLAIN);

/** The words in the user's language, for use in a view. */
export function useWords(): Words {
  return React.useContext(WordsContext);
}
