import type { PageWorld } from '../../../src/page/layout.ts';

/** What a page knows of its server where no one has logged in. */
export const pageWorld: PageWorld = {
  nowMs: 0,
  behindTargets: 0,
  config: 'sync.yaml',
  program: 'connector-sync',
  links: [],
  visitor: null,
  problem: null,
  here: './',
  canType: false,
  formToken: '',
  flash: '',
  live: () => '',
};
