import { noticeAction } from './notice-action.ts';

// A sender in a process of its own, for tests that kill it: send-notice.ts PORT KEY ADDRESS
const [port = '', key = '', address = ''] = process.argv.slice(2);
const context = { key, signal: AbortSignal.timeout(60_000) };
const args = { to: [address], subject: 'Your invoice', text: 'It is attached.' };
const action = noticeAction(Number(port));
const precondition = await action.precondition(args, context);
if (!precondition.holds) throw new Error(precondition.why);
await action.execute(args, precondition.before, context);
