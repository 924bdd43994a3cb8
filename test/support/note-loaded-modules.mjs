import { appendFileSync } from 'node:fs';
import { register } from 'node:module';
import { isMainThread } from 'node:worker_threads';

/** Preloaded with --import: every module that the program loads becomes a line of the file $LOADED_MODULES. */
if (isMainThread) register(import.meta.url);

export async function load(url, context, next) {
  appendFileSync(process.env.LOADED_MODULES, `${url}\n`);
  return next(url, context);
}
