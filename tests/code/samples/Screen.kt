package org.example.ui

import kotlin.math.max
import org.example.data.*
import org.example.net.Client as Net

const val TIMEOUT = 30
typealias Render<T> = (T) -> Unit

/** Shows things. */
@Stable
abstract class Screen<T : Any>(private val client: Net, var title: String, depth: Int = TIMEOUT) : View(client), Closeable {

    companion object {
        const val NAME = "screen"
        fun create(): Screen<String> = Main(Net())
    }

    protected val items: MutableList<T> = mutableListOf()
    private var shown = 0
        set(value) { field = max(value, 0) }

    init {
        shown = depth
    }

    constructor(client: Net) : this(client, NAME)

    /** Draws all. */
    override suspend fun draw(render: Render<T>, vararg flags: Int): Int? {
        val count = items.size
        for ((index, item) in items.withIndex()) {
            render(item)
            title = "$index"
        }
        client.listener = object : Listener {
            override fun onDone(code: Int) {
                log(code)
            }
        }
        return flags.firstOrNull { it > count }?.let { shown++ }
    }

    internal abstract fun close(hard: Boolean)

    enum class Mode(val code: Int) : Named {
        LIGHT(1),
        DARK(2);

        fun next() = DARK
    }
}

interface Listener {
    fun onDone(code: Int)
}

object Registry : Store() {
    fun find(name: String) = null
}

fun String.shout(times: Int): String = uppercase().repeat(times)
