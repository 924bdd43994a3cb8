import { SyncError } from './core/errors.ts';
import { openApp } from './library/open-app.ts';
import { check, copy, publish } from './library/operate.ts';
import { readChanges, search, status } from './library/read.ts';
import { startSync, sync } from './library/sync.ts';

export { check, copy, openApp, publish, readChanges, search, startSync, status, sync, SyncError };
export type * from './library/shapes.ts';
