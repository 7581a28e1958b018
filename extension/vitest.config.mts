import { defineConfig } from 'vitest/config';

// one jsdom for all files: to make it takes longer than most files do in it
const shared = { isolate: false, restoreMocks: true, unstubGlobals: true };

export default defineConfig({
  test: { environment: 'jsdom', include: ['test/**/*.test.{ts,tsx}'], setupFiles: ['test/setup.ts'], ...shared }
});
