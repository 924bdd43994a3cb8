import { SyncError } from './core/errors.ts';
import { check, copy, openApp, publish, readChanges, search, status, sync } from './library/calls.ts';

export { check, copy, openApp, publish, readChanges, search, status, sync, SyncError };
export type * from './library/shapes.ts';
