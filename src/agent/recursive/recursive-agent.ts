import { z } from 'zod';
import { defineAgent } from '../define-agent.ts';
import { checkAnswer, citedAnswer } from './gate.ts';
import { recursiveOptions } from './options.ts';
import { readContext } from './read-context.ts';
import { ReplRun } from './repl-run.ts';
import { TaskLimits } from './task-limits.ts';

/**
 * The built-in agent `recursive`: a root model writes code in a REPL whose variable `context` holds the documents, has pieces of them read by
 * sub-calls, and answers with citations. After Recursive Language Models (Zhang, Kraska, Khattab, arXiv 2512.24601). The context is the whole
 * folder `--option documents=DIR`, or the one `document` of it that the input names, or the input's own `context`.
 */
export const recursiveAgent = defineAgent({
  options: recursiveOptions,
  input: z.looseObject({
    question: z.string().min(1),
    document: z.string().min(1).optional(),
    context: z.string().min(1).optional(),
  }),
  output: citedAnswer,

  async run(task) {
    const context = await readContext(task.input, task.options.documents);
    const failing = Promise.withResolvers<never>();
    failing.promise.catch(() => undefined); // it may fail when the run has already ended
    const shared = { limits: new TaskLimits(task.options), fail: failing.reject };
    return Promise.race([new ReplRun(task, task.input.question, context, 0, shared).answer(), failing.promise]);
  },

  /** The same gate once more, on the documents as they are when the answer is written. */
  async check(answer, task) {
    const problems = checkAnswer(answer, await readContext(task.input, task.options.documents));
    if (problems.length > 0) throw new Error(`the answer does not pass the gate: ${problems.join('; ')}`);
  },
});
