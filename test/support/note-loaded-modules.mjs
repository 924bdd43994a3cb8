import { appendFileSync } from 'node:fs';
import { createRequire, register } from 'node:module';
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';

/**
 * Preloaded with --import: every module that the program loads, and every text that it writes, becomes a line of the
 * file $LOADED_MODULES: the address, or `wrote ` and the text as JSON.
 */
if (isMainThread) {
  register(import.meta.url);
  // What is loaded with `require` does not pass through `load`.
  process.on('exit', () => {
    const files = Object.keys(createRequire(import.meta.url).cache);
    appendFileSync(process.env.LOADED_MODULES, files.map((file) => `${pathToFileURL(file).href}\n`).join(''));
  });
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    stream.write = (text, ...rest) => {
      appendFileSync(process.env.LOADED_MODULES, `wrote ${JSON.stringify(String(text))}\n`);
      return write(text, ...rest);
    };
  }
}

export async function load(url, context, next) {
  appendFileSync(process.env.LOADED_MODULES, `${url}\n`);
  return next(url, context);
}
