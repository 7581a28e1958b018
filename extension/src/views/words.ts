import * as React from 'react';

import { PLAIN, Words } from '../words';

export { PLAIN, Words };

export const WordsContext = React.createContext<Words>(PLAIN);

/** The words of the user's language, inside a view. */
export function useWords(): Words {
  return React.useContext(WordsContext);
}
