/** The version of this extension: package.json says the same (a test compares them). */
export const VERSION = '0.1.0';
